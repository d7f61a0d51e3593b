"""A stage: a typed model whose fields are what a job reads, what it makes, and its settings; `run` does the work.

The flags of its command, the words of a planned job and the parents in its provenance all follow from the fields. Its
module loads only the types of the fields, since the plan makes hundreds of jobs; `run` imports what computes.
"""

import argparse
from importlib import import_module
from inspect import isclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from cocal.commands.flags import Flag
from cocal.commands.outputs import FILE, FOLDER, Kind
from cocal.settings.base import Model
from cocal.settings.parse import parse_settings, validate
from cocal.store.lineage import Source, descent
from cocal.store.provenance import canonical

_READ = "read"
In = Annotated[Path, _READ]
"""A file or folder that a job reads, and that its products are made from."""
Out = Annotated[Path, FILE]
"""A file that a job makes."""
OutFolder = Annotated[Path, FOLDER]
"""A folder that a job makes."""


class Stage(Model):
    """A job. It is made from the plan or from the flags of its command, and runs once."""

    command: ClassVar[str]
    """Its command, which its products name as their stage."""

    def run(self) -> None:
        """Do the work."""
        raise NotImplementedError

    def reads(self) -> list[Path]:
        """Files and folders that are there before the job: by default the values of all fields `In`."""
        values = (getattr(self, name) for name in type(self).model_fields if _READ in _marks(self, name))
        return [path for value in values for path in (value if isinstance(value, tuple) else [value]) if path]

    def writes(self) -> list[Path]:
        """Places that one process at a time may write: the run folder, whose files become the outputs, or else the
        first output."""
        made = (name for name in type(self).model_fields if _kind(self, name))
        return [getattr(self, "run_folder", None) or getattr(self, next(made))]

    def sources(self) -> list[Source]:
        """The parents of its products, with the facts that each of them must state."""
        return [Source(path) for path in self.reads()]

    def attributes(self, output: Path, settings: Any, **facts: str | int | None) -> dict[str, str]:
        """Provenance of an output: the command, the settings, the facts, and all parents with their digests."""
        return descent(output, self.command, settings, self.sources(), **facts)

    @property
    def words(self) -> list[str]:
        """The fields that were given as words of a command line: a flag that is True stands alone, and what is empty is
        left out.

        This is the only place where settings become text. They are words and no file that commands read, because a
        file could change between the plan and a job that waits for hours in the queue of a cluster, and because the
        printed command then says everything and can be typed again.
        """
        words = []
        for name in type(self).model_fields:
            value = getattr(self, name)
            if name not in self.model_fields_set or value is None or value is False or value == ():
                continue
            words.append(_flag(name))
            if isinstance(value, BaseModel):
                words.append(canonical(value))
            elif value is not True:
                words += map(str, value) if isinstance(value, tuple) else [str(value)]
        return words


def _marks(stage: Stage | type[Stage], name: str) -> list[Any]:
    """What the annotation of a field says of its paths: that they are read, or the kind of output."""
    owner = stage if isclass(stage) else type(stage)
    todo, found = [get_type_hints(owner, include_extras=True)[name]], []
    while todo:
        one = todo.pop()
        found += [mark for mark in getattr(one, "__metadata__", ()) if mark == _READ or isinstance(mark, Kind)]
        todo += get_args(one)
    return found


def _kind(stage: Stage | type[Stage], name: str) -> Kind | None:
    return next((mark for mark in _marks(stage, name) if isinstance(mark, Kind)), None)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def stage_of(command: str) -> type[Stage]:
    """The stage of a command: that of cocal_study.stages.import_rollouts is ImportRollouts."""
    module = import_module(f"cocal_study.stages.{command.replace('-', '_')}")
    return getattr(module, command.title().replace("-", ""))


def flags_of(command: str) -> list[Flag]:
    """The flags of a stage's command, one for each field; values are checked when the stage is made."""
    stage, flags = stage_of(command), []
    for name, field in stage.model_fields.items():
        options: dict[str, Any] = {"help": " ".join((field.description or "").split()).replace("%", "%%")}
        options["required"] = field.is_required()
        if field.annotation is bool:
            options |= {"action": "store_const", "const": True}
        else:
            options |= {"nargs": "+"} if get_origin(field.annotation) is tuple else {}
            options |= {"type": Path} if _path_type(field.annotation) else {}
        flags.append(Flag(_flag(name), options, _kind(stage, name)))
    return flags


def _path_type(annotation: Any) -> bool:
    return annotation is Path or any(map(_path_type, get_args(annotation)))


def job_of(options: argparse.Namespace) -> Stage:
    """The job that the flags of a command describe.

    Raises:
        ConfigError: if a value is not valid; the message names its flag.
    """
    stage, content = stage_of(options.command), {}
    for name, field in stage.model_fields.items():
        value = getattr(options, name)
        if value is None:
            continue
        model = next((one for one in (field.annotation, *get_args(field.annotation)) if _is_model(one)), None)
        if model:
            value = parse_settings(model, value, _flag(name))
        content[name] = value
    return validate(stage, content, f"flags of cocal {stage.command}")


def _is_model(annotation: Any) -> bool:
    return isclass(annotation) and issubclass(annotation, BaseModel)


def run_stage(options: argparse.Namespace) -> None:
    """Run the job that the flags of a command describe."""
    job_of(options).run()
