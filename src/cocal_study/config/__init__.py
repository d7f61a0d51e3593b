"""The configuration of a study: one typed model, loaded from one YAML file."""

from cocal.errors import ConfigError
from cocal_study.config.load import load_study
from cocal_study.config.parse import parse_settings

__all__ = ["ConfigError", "load_study", "parse_settings"]
