"""The configuration of a study: one typed model, loaded from one YAML file."""

from typing import TYPE_CHECKING, Any

from cocal.config.load import load_study, parse_settings
from cocal.errors import ConfigError

if TYPE_CHECKING:
    from cocal.config.study import Study

__all__ = ["ConfigError", "Study", "load_study", "parse_settings"]


def __getattr__(name: str) -> Any:
    """Import the model of a study when somebody asks for it."""
    if name == "Study":
        from cocal.config.study import Study

        return Study
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
