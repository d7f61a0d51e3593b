"""The configuration of a study: one typed model, loaded from one YAML file."""
