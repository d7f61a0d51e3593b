"""A policy with a companion that scores one sequence at a time, and its inference times."""
