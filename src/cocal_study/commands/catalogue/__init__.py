"""The commands of a study with their flags, as data."""
