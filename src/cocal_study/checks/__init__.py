"""Checks of a study's files against the protocol; each raises an error or returns the numbers that it checked."""
