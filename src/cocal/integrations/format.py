"""What a format of rollouts is: one module of `cocal.integrations.formats`, which declares a `FORMAT`."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cocal.errors import ConfigError
from cocal.integrations.sample import Sample


@dataclass(frozen=True)
class Wishes:
    """How rollouts are read.

    Attributes:
        mapping: Names of fields by their meaning (`cocal.integrations.lines.FIELDS`).
        ignored: Names or meanings of fields that are not read.
        notes: Sentences about what was read for what, which are added to.
    """

    mapping: Mapping[str, str] = field(default_factory=dict)
    ignored: Collection[str] = ()
    notes: Counter = field(default_factory=Counter)

    def label(self, kind: str) -> str | None:
        """Name of the label that was given for a format with fields of its own; a ConfigError refuses other names."""
        if wrong := [meaning for meaning in self.mapping if meaning not in ("reward", "correct")]:
            raise ConfigError(
                f"--field {wrong[0]}=...: {kind} have fields of their own; only that of the label may be named "
                "(--field reward=NAME)"
            )
        return next(iter(self.mapping.values()), None)


@dataclass(frozen=True)
class Format:
    """A format of files.

    Attributes:
        name: What its files are, in words.
        version: Version of the engine whose code was read or run.
        files: Names of its files, in words.
        about: What somebody who has such files should know.
        example: Name of a file, and a row in it.
        recognises: Whether a file is of this format, by its path and the names of the fields in its first row; of a
            pickle there are none.
        read: The responses of a file; a ContractError names file and row of a wrong one.
        steps: Files of a folder by their steps, where names tell them in a way of the format; None where the one rule
            for all names holds (`cocal.integrations.files.step_named`).
        raw: Whether texts of prompts are all that the policy read, and not messages of a user.
        last: Whether it is asked after all others.
    """

    name: str
    version: str
    files: str
    about: str
    example: tuple[str, Mapping[str, Any]]
    recognises: Callable[[Path, Collection[str]], bool]
    read: Callable[[Path, Wishes], Iterable[Sample]]
    steps: Callable[[Path], Mapping[int, Path]] | None = None
    raw: bool = False
    last: bool = False
