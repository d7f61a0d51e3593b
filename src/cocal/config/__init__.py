"""The configuration of a study: one typed model, loaded from one YAML file."""

from cocal.config.load import load_study
from cocal.config.parse import parse_settings
from cocal.errors import ConfigError

__all__ = ["ConfigError", "load_study", "parse_settings"]
