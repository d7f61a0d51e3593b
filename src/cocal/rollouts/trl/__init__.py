"""Rollouts recorded during anybody's training with TRL."""
