"""Confidences: companions saved in the Hub's convention, applied to responses, evaluated, and decided by."""

COURSE = "_course"
"""What follows the name of a confidence in that of its course (`cocal score --every`)."""
