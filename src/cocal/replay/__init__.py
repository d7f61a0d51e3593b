"""Hidden states of stored rollouts, read again with a checkpoint that stands for the policy of their step."""
