"""The dataset registry config/datasets.yaml, which lists the source and licence of each question set and its rows that
are known to be wrong."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from cocal.errors import ConfigError
from cocal.settings.base import Count, Model, Name
from cocal.store.provenance import canonical
from cocal_study.config.data import RegisteredSettings
from cocal_study.config.parse import parse_settings
from cocal_study.config.study import Study

HOSTS = {"github": "https://raw.githubusercontent.com", "huggingface": "https://huggingface.co"}
"""Base URLs of the hosts; a mirror replaces either."""
_PAGES = {"github": "https://github.com/{0}/tree/{1}", "huggingface": "https://huggingface.co/datasets/{0}/tree/{1}"}

Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class File(Model):
    """One file of a source at its pinned revision."""

    path: Annotated[str, Field(pattern=r"^[\w.-]+(/[\w.-]+)*$")]
    """Path in the repository."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Checksum. If it is unknown, the checksum of the first download is recorded and required from then on."""

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
    """Repository as OWNER/NAME; on huggingface it is a dataset repository."""
    revision: Commit
    files: Annotated[tuple[File, ...], Field(min_length=1)]
    """Files of the set, which are read in this order."""

    def place(self, file: File) -> str:
        """Path of a file relative to the host, a mirror or the cache."""
        if self.host == "github":
            return f"{self.repository}/{self.revision}/{file.path}"
        return f"datasets/{self.repository}/resolve/{self.revision}/{file.path}"


class Fields(Model):
    """Names of a record's fields; `a.0.b` is the field b of the first item of the list a."""

    question: str = "question"
    answer: str = "answer"
    """Field that holds a string, a number or a list of accepted answers."""
    id: tuple[str, ...] = ()
    """Fields that together identify the row; without any, its zero-based position in the source does."""
    subject: str | None = None
    level: str | None = None


class Correction(Model):
    """The correction of a row of the source that is known to be wrong."""

    id: str
    """Id of the row (`fields.id`)."""
    field: Literal["question", "answer"]
    old: str
    """Text in the source; any other text is refused, because the correction was not made for it."""
    new: str
    reason: str
    """Evidence that the row is wrong."""


class Entry(Model):
    """One question set."""

    title: str
    """Name of the set for readers."""
    licence: str
    source: Source
    loader: Literal["jsonl", "json", "parquet"]
    """Format of the files."""
    fields: Fields = Fields()
    main_answer: Literal["first", "last"] = "first"
    """Position of the main answer in a list of accepted answers; the others become its aliases."""
    suffix: str = ""
    """Instruction at the end of every question of the source; it is removed, because prompts have their own."""
    merge: bool = False
    """True if rows with the same text become one question that accepts the answers of all rows. It is meant for
    training sets; in evaluation sets, questions with the same text may ask about different things and stay separate."""
    rows: Count
    """Number of records in the source."""
    questions: Count | None = None
    """Number of questions after merging and without records that have no answer; None if they are not counted yet."""
    note: str = ""
    corrections: tuple[Correction, ...] = ()

    @field_validator("corrections")
    @classmethod
    def _once(cls, corrections: tuple[Correction, ...]) -> tuple[Correction, ...]:
        cells = [(c.id, c.field) for c in corrections]
        if len(set(cells)) != len(cells):
            raise ValueError("a field of a row is corrected twice")
        return corrections


class Registry(Model):
    """The content of config/datasets.yaml, or the slice of it that a study needs."""

    sets: dict[Name, Entry] = {}

    def slice(self, names: Iterable[str]) -> "Registry":
        """The registry with these sets alone. Raises ConfigError if a set is not registered."""
        names = list(names)
        for name in names:
            if name not in self.sets:
                near = difflib.get_close_matches(name, self.sets, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(self.sets)}"
                raise ConfigError(f"no data set {name!r} is registered{hint}")
        return Registry(sets={name: self.sets[name] for name in names})

    def content(self) -> "Registry":
        """The registry without titles, licences, notes and reasons, on which no question depends."""
        sets = {}
        for name, entry in self.sets.items():
            corrections = tuple(correction.model_copy(update={"reason": ""}) for correction in entry.corrections)
            texts = {"title": "", "licence": "", "note": ""}
            sets[name] = entry.model_copy(update=texts | {"corrections": corrections})
        return Registry(sets=sets)


def known_wrong(sources: Mapping[str, RegisteredSettings], registry: Registry) -> dict[str, int]:
    """Number of rows of each data set that are known to be wrong, corrected or not; sets without any are left out."""
    counts = {d: len({c.id for c in registry.sets[s.name].corrections}) for d, s in sources.items()}
    return {dataset: count for dataset, count in counts.items() if count}


def registry_of(sources: Mapping[str, RegisteredSettings], path: str | Path) -> Registry:
    """The slice of the registry at `path` that a study needs; without registered sets, the file is not read. Raises
    ConfigError if the file is missing or not valid, a set is not in it, or the study gives another number of
    questions.
    """
    if not sources:
        return Registry()
    registry = parse_settings(Registry, str(path)).slice(source.name for source in sources.values())
    for dataset, source in sources.items():
        known = registry.sets[source.name].questions
        if source.questions is not None and known not in (None, source.questions):
            raise ConfigError(
                f"datasets.{dataset}: source.questions = {source.questions}, but {source.name} has {known} ({path})"
            )
    return registry


def references(study: Study, registry: Registry) -> Iterator[str]:
    """A line for each question set of a study: its name, with address, revision and licence, or how it is made."""
    for dataset in study.datasets.values():
        if isinstance(dataset.source, RegisteredSettings):
            entry = registry.sets[dataset.source.name]
            address = _PAGES[entry.source.host].format(entry.source.repository, entry.source.revision)
            yield f"{dataset.label}: {address} ({entry.licence})"
        else:
            source = canonical(dataset.source.model_dump(mode="json", exclude={"path"}))
            made = f"{dataset.role}, {dataset.domain}, made by `cocal questions` from {source}, seed {study.seed}"
            yield f"{dataset.label}: {made}"
