"""Settings: the base of their models, and their reading."""
