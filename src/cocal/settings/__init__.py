"""The base of the models of all settings."""
