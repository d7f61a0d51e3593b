"""Answers: extracted from responses, brought into comparable forms, compared, and judged right or wrong."""
