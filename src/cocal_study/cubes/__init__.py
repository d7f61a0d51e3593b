"""Metrics of all methods and sets as labelled arrays, and their resamples; the quality of choices by confidence."""
