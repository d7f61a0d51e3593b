"""Companions fitted on anybody's rollouts: recipes, prefixes, baselines, and what the card says of their quality."""
