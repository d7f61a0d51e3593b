"""Metrics of all methods and sets as labelled arrays, and their resamples; how good choices are."""
