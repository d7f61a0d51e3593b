"""Rollouts of anybody's training: files of many formats are read, and those of trainings with TRL recorded."""
