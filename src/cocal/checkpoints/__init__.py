"""Checkpoints of policies: download, checks and loading, and the checkpoints from which a killed training resumes."""
