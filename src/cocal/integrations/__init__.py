"""Rollouts of other engines are read, and those of anybody's training with TRL recorded."""
