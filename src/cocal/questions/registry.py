"""The dataset registry, config/datasets.yaml: where each question set comes from, under which licence, and which of
its rows are known to be wrong."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from cocal.config.base import Count, Model, Name
from cocal.config.data import RegisteredSettings
from cocal.config.load import read_yaml, validate
from cocal.errors import ConfigError

HOSTS = {"github": "https://raw.githubusercontent.com", "huggingface": "https://huggingface.co"}
"""Where the files lie. A mirror replaces either."""

Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class File(Model):
    """One file of a source, at its pinned revision."""

    path: Annotated[str, Field(pattern=r"^[\w.-]+(/[\w.-]+)*$")]
    """Path in the repository."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Checksum. Where it is unknown, that of the first download is recorded and holds from then on."""
    bytes: Count | None = None
    """Size."""

    @field_validator("path")
    @classmethod
    def _inside(cls, path: str) -> str:
        if {".", ".."} & set(path.split("/")):
            raise ValueError("the path must not leave the repository")
        return path


class Source(Model):
    """A public repository at one commit."""

    host: Literal["github", "huggingface"]
    repository: Annotated[str, Field(pattern=r"^[\w-][\w.-]*/[\w-][\w.-]*$")]
    """OWNER/NAME; on huggingface a dataset."""
    revision: Commit
    files: Annotated[tuple[File, ...], Field(min_length=1)]
    """Read one after another, in this order."""

    def place(self, file: File) -> str:
        """Path of a file below the host, a mirror or the cache."""
        if self.host == "github":
            return f"{self.repository}/{self.revision}/{file.path}"
        return f"datasets/{self.repository}/resolve/{self.revision}/{file.path}"


class Fields(Model):
    """Where a record holds what; `a.0.b` is the field b of the first item of the list a."""

    question: str = "question"
    answer: str = "answer"
    """A string, a number, or a list of accepted answers."""
    id: tuple[str, ...] = ()
    """Fields that together name the row; without any, its position in the source, from zero."""
    subject: str | None = None
    level: str | None = None


class Correction(Model):
    """A row of the source that is known to be wrong."""

    id: str
    """Of the row (`fields.id`)."""
    field: Literal["question", "answer"]
    old: str
    """What the source says; anything else there is refused, for the correction was not made for it."""
    new: str
    reason: str
    """How it is known."""


class Entry(Model):
    """One question set."""

    title: str
    """Name shown to people."""
    licence: str
    source: Source
    loader: Literal["jsonl", "json", "parquet"]
    """Format of the files."""
    fields: Fields = Fields()
    main_answer: Literal["first", "last"] = "first"
    """Which of several accepted answers is the answer; the others are its aliases."""
    suffix: str = ""
    """Instruction at the end of every question of the source; it is cut off, for prompts have their own."""
    merge: bool = False
    """Whether rows of the same text become one question that accepts the answers of all: of training sets. Questions
    of evaluation sets that read alike may ask about different things, and stay apart."""
    rows: Count
    """Records in the source."""
    questions: Count | None = None
    """Questions that come of them, after merging and without records that have no answer; None if not yet counted."""
    note: str = ""
    corrections: tuple[Correction, ...] = ()

    @field_validator("corrections")
    @classmethod
    def _once(cls, corrections: tuple[Correction, ...]) -> tuple[Correction, ...]:
        cells = [(c.id, c.field) for c in corrections]
        if len(set(cells)) != len(cells):
            raise ValueError("a field of a row is corrected twice")
        return corrections

    def content(self) -> "Entry":
        """The entry without the words that no question depends on."""
        corrections = tuple(c.model_copy(update={"reason": ""}) for c in self.corrections)
        return self.model_copy(update={"title": "", "licence": "", "note": "", "corrections": corrections})


class Registry(Model):
    """config/datasets.yaml, or the slice of it that a study needs."""

    sets: dict[Name, Entry] = {}

    def slice(self, names: Iterable[str]) -> "Registry":
        """The registry of these sets alone.

        Raises:
            ConfigError: if one is not registered.
        """
        names = list(names)
        for name in names:
            if name not in self.sets:
                near = difflib.get_close_matches(name, self.sets, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(self.sets)}"
                raise ConfigError(f"no data set {name!r} is registered{hint}")
        return Registry(sets={name: self.sets[name] for name in names})

    def content(self) -> "Registry":
        """The registry without the words that no question depends on: titles, licences, notes and reasons."""
        return Registry(sets={name: entry.content() for name, entry in self.sets.items()})


def read_registry(path: str | Path) -> Registry:
    """The registry in a YAML file.

    Raises:
        ConfigError: if it is missing or not valid.
    """
    return validate(Registry, read_yaml(path), str(path))


def known_wrong(sources: Mapping[str, RegisteredSettings], registry: Registry) -> dict[str, int]:
    """How many rows of each data set are known to be wrong, mended or not; sets without such rows are left out.

    Args:
        sources: registered sources by data set.
        registry: with their entries.
    """
    counts = {d: len({c.id for c in registry.sets[s.name].corrections}) for d, s in sources.items()}
    return {dataset: count for dataset, count in counts.items() if count}


def registry_of(sources: Mapping[str, RegisteredSettings], path: str | Path) -> Registry:
    """The slice of the registry that a study needs; a study without registered sets reads no file.

    Args:
        sources: registered sources by data set.
        path: YAML file of the registry.

    Raises:
        ConfigError: if the file is missing or not valid, a set is not in it, or the study expects another number of
            questions.
    """
    if not sources:
        return Registry()
    registry = read_registry(path).slice(source.name for source in sources.values())
    for dataset, source in sources.items():
        known = registry.sets[source.name].questions
        if source.questions is not None and known not in (None, source.questions):
            raise ConfigError(
                f"datasets.{dataset}: source.questions = {source.questions}, but {source.name} has {known} ({path})"
            )
    return registry
