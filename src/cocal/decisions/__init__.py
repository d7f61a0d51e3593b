"""What to do with confidences: which of several responses to take, and when to abstain."""
