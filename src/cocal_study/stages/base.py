"""A stage: a typed model whose fields are what a job reads, what it makes, and its settings; `run` does the work.

The flags of its command, the words of a planned job, what it waits for and the parents in its provenance all follow
from the fields. Its module loads only the types of the fields, since the plan makes hundreds of jobs; `run` imports
what computes.
"""

import argparse
import os
import re
from abc import abstractmethod
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field

from cocal.commands.flags import Flag
from cocal.commands.outputs import FILE, FOLDER, STEPS, Kind
from cocal.errors import ConfigError
from cocal.settings.base import Count, Model
from cocal.store.provenance import canonical
from cocal_study.config.parse import parse_settings, validate
from cocal_study.provenance.lineage import Source, descent
from cocal_study.stages import MODULES

_READ = "read"
In = Annotated[Path, _READ]
"""A file or folder that a job reads, and that its products are made from."""
Out = Annotated[Path, FILE]
"""A file that a job makes."""
OutFolder = Annotated[Path, FOLDER]
"""A folder that a job makes."""
OutSteps = Annotated[Path, STEPS]
"""A folder in which a job makes the checkpoints step-N."""
OutTables = Annotated[Path, Kind(folder=True, entries="*.parquet")]
"""A folder in which a job makes a table for each question set; other jobs make those of other sets."""
OutStores = Annotated[Path, Kind(folder=True, entries="*.zarr")]
"""A folder in which a job makes a feature store for each question set; other jobs make those of other sets."""
Index = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Unfinished = Annotated[Path, Field(description="working folder; a killed run resumes from it")]
PromptSet = Annotated[str, Field(description="prompt set: a folder of cocal_study/questions/prompts")]
TrainingSet = Annotated[In, Field(description="whole training set, with validation questions")]
Pool = Annotated[Count, Field(description="responses per question in the self-consistency pool (default: 10)")]


def from_environment(variable: str, otherwise: Any = None) -> Any:
    """The default of a field: the value of an environment variable, or else `otherwise`."""
    return Field(default_factory=lambda: os.environ.get(variable, otherwise), validate_default=True)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


class Stage(Model):
    """A job. It is made from the plan or from the flags of its command, and runs once."""

    model_config = ConfigDict(alias_generator=_flag, populate_by_name=True)

    command: ClassVar[str] = ""
    """Its command, which its products name as their stage."""
    computed: ClassVar[bool] = True
    """Whether the numerics of the study change its products."""

    def __init_subclass__(cls, **options: Any):
        """Name the command after the class, as products name their stage: import-rollouts after ImportRollouts."""
        super().__init_subclass__(**options)
        cls.command = "-".join(re.findall("[A-Z][a-z]*", cls.__name__)).lower()

    @abstractmethod
    def run(self) -> None:
        """Do the work."""

    def sources(self) -> list[Source]:
        """The parents of its products, with the facts that each of them must state: by default all fields `In`."""
        read = (getattr(self, name) for name, mark in _marks(type(self)).items() if mark == _READ)
        return [Source(path) for value in read for path in _paths(value)]

    def reads(self) -> list[Path]:
        """Files and folders that are there before the job: by default the parents of its products."""
        return [source.path for source in self.sources()]

    def writes(self) -> list[Path]:
        """Paths that only one process at a time may write: the run folder, whose files become the outputs, or without
        one the first output."""
        made = (name for name, mark in _marks(type(self)).items() if isinstance(mark, Kind))
        place = getattr(self, "run_folder", None) or getattr(self, next(made))
        return [place] if place else []

    def named(self) -> list[str]:
        """Modules and definitions that compute its products and that it imports by name."""
        return []

    def declared(self) -> Any:
        """Declarations that it looks up by names in its settings, if its products depend on them."""
        return None

    def attributes(self, output: Path, settings: Any, **facts: str | int | None) -> dict[str, str]:
        """Provenance of an output: the command, the settings, the facts, and all parents with their digests."""
        return descent(output, self.command, settings, self.sources(), **facts)

    @property
    def words(self) -> list[str]:
        """The command with the fields that were given: a flag that is True stands alone, and what is empty is left out.

        This is the only place where settings become text. They are words, and not a file that commands read, because a
        file could change between the plan and a job that waits for hours in the queue of a cluster, and because the
        printed command then says everything and can be typed again.
        """
        words = [self.command]
        for name in type(self).model_fields:
            value = getattr(self, name)
            if name in self.model_fields_set and not (value is None or value is False or value in ((), {})):
                words += [_flag(name), *_words(value)]
        return words


class Cell(Stage):
    """Stages of one checkpoint, whose products name it."""

    backbone: str
    algorithm: str
    """algorithm that trained the policy, or base"""
    step: Index

    @property
    def cell(self) -> dict[str, Any]:
        """Backbone, algorithm and step."""
        return {"backbone": self.backbone, "algorithm": self.algorithm, "step": self.step}


class ReadByCheckpoints(Stage):
    """Stages in which checkpoints read stored rollouts (`cocal_study.generation.replay`)."""

    checkpoints: tuple[Path, ...] = ()
    """step-N of every stage; each reads the rollout steps after the stage before it, up to N"""
    exact: Path | None = None
    """folder of the weights of every step; weight_v000001 (of slime) or step-0 sampled step 1 and reads it"""

    @property
    def readers(self) -> list[Path]:
        """The folders that are given."""
        return [self.exact] if self.exact else list(self.checkpoints)


def _words(value: Any) -> Iterator[str]:
    """A value of a field as words of a command line."""
    if isinstance(value, BaseModel):
        yield canonical(value)
    elif isinstance(value, dict):
        yield from (f"{kind}={word}" for kind, inner in value.items() for word in _words(inner))
    elif isinstance(value, tuple):
        yield from map(str, value)
    elif value is not True:
        yield str(value)


def _paths(value: Any) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    elif value is not None:
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _paths(inner)


@cache
def _marks(stage: type[Stage]) -> dict[str, str | Kind]:
    """The marks in the annotations of path fields: that the path is read, or the kind of output."""
    hints = get_type_hints(stage, include_extras=True)
    return {name: mark for name, hint in hints.items() if (mark := _mark(hint))}


def _mark(hint: Any) -> str | Kind | None:
    own = (mark for mark in getattr(hint, "__metadata__", ()) if mark == _READ or isinstance(mark, Kind))
    return next(own, None) or next(filter(None, map(_mark, get_args(hint))), None)


def _bare(annotation: Any) -> Any:
    """An annotation without its metadata, and without None."""
    if get_origin(annotation) is Annotated:
        return _bare(annotation.__origin__)
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    return _bare(kinds[0]) if NoneType in get_args(annotation) else annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def stage_of(command: str) -> type[Stage]:
    """The stage of a command."""
    module = next(module for module, commands in MODULES.items() if command in commands)
    return getattr(import_module(f"cocal_study.stages.{module}"), command.title().replace("-", ""))


def flags_of(command: str) -> list[Flag]:
    """The flags of a stage's command, one for each field; values are checked when the stage is made."""
    stage, flags = stage_of(command), []
    for name, field in stage.model_fields.items():
        kind = _bare(field.annotation)
        about = field.description or (f"JSON: {kind.__doc__.splitlines()[0]}" if _is_model(kind) else "")
        options: dict[str, Any] = {"help": " ".join(about.split()).replace("%", "%%"), "required": field.is_required()}
        each = _bare(get_args(kind)[0]) if get_origin(kind) is tuple else kind
        if kind is bool:
            options |= {"action": "store_const", "const": True}
        elif get_origin(kind) in (tuple, dict):
            options["nargs"] = "+"
        if each is Path:
            options["type"] = Path
        if get_origin(each) is Literal:
            options["choices"] = get_args(each)
        mark = _marks(stage).get(name)
        flags.append(Flag(_flag(name), options, mark if isinstance(mark, Kind) else None))
    return flags


def job_of(options: argparse.Namespace) -> Stage:
    """The job that the flags of a command describe. Raises ConfigError if the value of a flag is not valid."""
    stage, content = stage_of(options.command), {}
    for name, field in stage.model_fields.items():
        value, flag, kind = getattr(options, name), _flag(name), _bare(field.annotation)
        if value is not None and _is_model(kind):
            value = parse_settings(kind, value, flag)
        elif value is not None and get_origin(kind) is dict:
            value = _by_kind(flag, value, several=get_origin(get_args(kind)[1]) is tuple)
        if value is not None:
            content[flag] = value
    return validate(stage, content, f"flags of cocal {stage.command}")


def _by_kind(flag: str, words: list[str], several: bool) -> dict[str, Any]:
    """Values by their kinds, from words of the form KIND=VALUE."""
    by_kind: dict[str, list[str]] = {}
    for word in words:
        kind, _, value = word.partition("=")
        if not kind or not value:
            raise ConfigError(f"{flag}: {word!r} is not KIND=VALUE")
        by_kind.setdefault(kind, []).append(value)
    for kind, values in by_kind.items():
        if len(values) > 1 and not several:
            raise ConfigError(f"{flag}: {len(values)} values of {kind}; give one")
    return by_kind if several else {kind: value for kind, (value,) in by_kind.items()}


def run_stage(options: argparse.Namespace) -> None:
    """Run the job that the flags of a command describe."""
    job_of(options).run()
