"""The configuration of a study: one typed model, loaded from one YAML file."""

from cocal.config.load import load_study, parse_settings
from cocal.config.study import Study
from cocal.errors import ConfigError

__all__ = ["ConfigError", "Study", "load_study", "parse_settings"]
