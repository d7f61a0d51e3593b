"""Checkpoints of policies: found, checked, loaded, and what a killed training goes on from."""
