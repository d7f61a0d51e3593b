"""Companions without a workflow: fitted on anybody's rollouts, saved in the Hub's convention, applied to responses."""
