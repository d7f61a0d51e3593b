"""A companion beside its policy, one sequence at a time."""
