"""Confidences: companions saved in the Hub's convention, applied to responses, evaluated, and decided by."""
