"""Confidences: companions saved in the Hub's convention, applied to responses, evaluated, and decided by."""

COURSE = "_course"
"""What follows the name of a confidence in that of its course (`cocal score --every`)."""
LEARNT_FROM = "_learnt"
"""What follows it in that of a field which is true where the companion has learnt from the response's prompt."""
LEARNT = "among those that the companion learnt from, and on these its quality is not that on new questions"
"""What prompts are that were learnt from, in words."""
