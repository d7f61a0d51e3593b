"""Reading of configurations: YAML or JSON becomes a validated model, or raises one clear error.

The model of a whole study is imported where one is read. Most commands read the settings of their stage alone.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cocal.errors import ConfigError
from cocal_study.config.parse import merged, read_yaml, validate

if TYPE_CHECKING:
    from cocal_study.config.study import Study

_SINGLE_KEYS = "--config 'companion={passes: 10}'"


def load_study(path: str | Path, overrides: Mapping[str, Any] | None = None) -> "Study":
    """The study in a YAML file, with `overrides` merged into it key by key.

    Raises:
        ConfigError: if the file or the merged result is not a valid study.
    """
    from cocal_study.config.study import Study

    return validate(Study, merged(read_yaml(path), overrides or {}), str(path))


def configured_study(files: Sequence[str | Path], changes: Mapping[str, Any]) -> "Study":
    """The study of a run of the workflow: the file that --configfile names, with the values that --config gives.

    Raises:
        ConfigError: if there are several files, the file is not a whole study, or the result is not a valid study.
    """
    if len(files) > 1:
        raise ConfigError(
            f"--configfile {' '.join(map(str, files))}: a run has one study, and files are never merged; "
            f"change single keys of a study with {_SINGLE_KEYS}"
        )
    if "study" not in read_yaml(files[0]):
        raise ConfigError(
            f"{files[0]}: no key `study:`. A file given with --configfile is a whole study and replaces the default; "
            f"change single keys of a study with {_SINGLE_KEYS}"
        )
    return load_study(files[0], changes)
