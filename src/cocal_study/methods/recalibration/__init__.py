"""Baselines of the companions that learn from the same rollouts: scores, Platt scaling and isotonic regression."""
