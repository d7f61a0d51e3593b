"""Regimes: a study under conditions that are changed one at a time, in several replicates of each."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from cocal.settings.base import Model
from cocal_study.config.parse import merged, read_yaml, validate
from cocal_study.config.study import Study
from cocal_study.planning.replicates import replicate

BASE = "base"
"""Name of the point at which no condition is changed."""


class Level(Model):
    """One value of a condition."""

    name: Annotated[str, Field(min_length=1)]
    """The value in print."""
    keys: dict[str, Any] = {}
    """Keys of the study that set it; none for the study's own value."""


class Axis(Model):
    """A condition that is changed alone."""

    name: Annotated[str, Field(min_length=1)]
    """The condition in print."""
    levels: Annotated[tuple[Level, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _levels(self) -> "Axis":
        if [bool(level.keys) for level in self.levels].count(False) != 1:
            raise ValueError("exactly one level, which is the study's own, has no keys")
        return self

    def point(self, level: Level) -> str:
        """Name of the folder of a level: its words in lower case with hyphens."""
        words = f"{self.name} {level.name}".lower()
        return re.sub(r"[^a-z0-9]+", "-", words).strip("-") if level.keys else BASE


class Regimes(Model):
    """The content of a file of regimes."""

    study: str
    """File of the study whose conditions are changed; a relative path starts at the folder of this file."""
    keys: dict[str, Any] = {}
    """Keys of the study that all points share."""
    axes: Annotated[tuple[Axis, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _distinct(self) -> "Regimes":
        names = [name for name, _ in self.points]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"several levels have the folder {min(repeated)}: give them other names")
        return self

    @property
    def points(self) -> list[tuple[str, dict[str, Any]]]:
        """Every point by the name of its folder, with its keys; the unchanged one comes first."""
        changed = [(axis.point(level), level.keys) for axis in self.axes for level in axis.levels if level.keys]
        return [(BASE, {}), *changed]


def read_regimes(path: Path) -> Regimes:
    """The content of a file of regimes. Raises ConfigError if the file is missing or wrong."""
    return validate(Regimes, read_yaml(path), str(path))


def studies_of(path: Path, number: int) -> dict[str, Study]:
    """The study of every point of a file of regimes, by the name of its folder, with the seeds of a replicate. Raises
    ConfigError if the file, the study that it names, or the study of a point is wrong."""
    regimes = read_regimes(path)
    shared = merged(read_yaml(path.parent / regimes.study), regimes.keys, removing=True)
    return {
        name: replicate(validate(Study, merged(shared, keys, removing=True), f"{path}, {name}"), number)
        for name, keys in regimes.points
    }
