"""Hidden states of stored rollouts, recomputed with a checkpoint close to the policy of their step."""
