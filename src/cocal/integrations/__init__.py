"""Rollouts that another engine sampled become tables of the contract; slime is also started from here."""
