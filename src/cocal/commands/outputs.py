"""Where commands write: no output replaces an input, nor anything that its command has not made.

Each command says which of its flags are outputs (`cocal.commands.flags.output`); the command line applies this one
rule to all of them before the command begins. Snakemake deletes the outputs of a job before it starts the job.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cocal.errors import ConfigError

_KIN = {"train", "import-rollouts", "import-checkpoints"}
"""Commands that make the same kind of results, each with another engine: each may replace what another has made."""
_APART = {"run_folder", "cache", "judgements", "directory"}
"""Flags of folders that are not read as inputs."""
_STUDIES = {"results"}
"""Flags of the results of whole studies, among which other results may be written."""
_WORDS = {"model", "companion", "companions", "first", "second", "stages", "input", "inputs", "responses", "features"}
"""Flags whose words name inputs, some of them as KIND=PATH."""


class Kind(NamedTuple):
    """The kind of output that a command writes at the path of a flag.

    Attributes:
        folder: True for a folder.
        entries: Pattern of what the command writes into a folder in which other commands write, too.
        beside: Endings of the files that are written beside a file.
        made: Function that tells whether the command has made a path whose provenance does not say so.
        alike: Function that tells whether a path is of this kind at all; if not, `--overwrite` does not replace it.
    """

    folder: bool = False
    entries: str | None = None
    beside: tuple[str, ...] = ()
    made: Callable[[Path], bool] | None = None
    alike: Callable[[Path], bool] | None = None

    def targets(self, path: Path) -> list[Path]:
        """The files and folders that would be replaced."""
        if self.entries:
            return sorted(path.glob(self.entries))
        files = filter(Path.exists, [path, *(path.with_suffix(ending) for ending in self.beside)])
        return [file for file in files if (any(file.iterdir()) if file.is_dir() else file.stat().st_size)]


def _begins_with_an_object(file: Path) -> bool:
    with file.open("rb") as lines:
        return lines.read(1 << 10).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


LINES = Kind(alike=_begins_with_an_object)
"""A file of JSON lines."""
FILE, FOLDER, STEPS = Kind(), Kind(folder=True), Kind(folder=True, entries="step-*")


def check_outputs(options: argparse.Namespace) -> None:
    """Check the outputs of a command before it begins; `options.outputs` has their kinds by the names of flags. Raises
    a ConfigError if an output is, holds or lies within an input or another output, cannot be written where it is, or
    would replace something other than an earlier output of this command, and a ContractError if it is neither a file
    nor a folder, such as a pipe, or what a process has open."""
    kinds: dict[str, Kind] = getattr(options, "outputs", {})
    written = {name: (getattr(options, name), kind) for name, kind in kinds.items() if getattr(options, name)}
    if getattr(options, "run_folder", None):  # it checks its own content
        written["run_folder"] = options.run_folder, Kind(folder=True)
    for name, (path, kind) in written.items():
        _check_place(path, kind.folder)
        for other, (place, whole) in written.items():
            words = name != other and _overlap(path, place, within=whole.folder and not whole.entries)
            if words:
                raise ConfigError(f"{path}: the output {words} that of --{other.replace('_', '-')}; write it elsewhere")
        for source, read in _inputs(options):
            if words := _overlap(path, read, within=source not in _STUDIES, holds=not kind.entries):
                raise ConfigError(f"{path}: the output {words} the input {read}; write it elsewhere")
    for name, kind in kinds.items():
        if name in written:
            _check_replaced(written[name][0], kind, options)


def _check_place(path: Path, folder: bool) -> None:
    """Refuse a file in the place of a folder or the other way round, a device, and a link that leads nowhere."""
    kind, other = ("folder", "file") if folder else ("file", "folder or a device")
    if path.exists() and not (path.is_dir() if folder else path.is_file()):
        raise ConfigError(f"{path}: is a {other}, but the command writes a {kind}; give another name")
    if path.is_symlink() and not path.exists():
        raise ConfigError(f"{path}: is a symbolic link that leads nowhere; delete it, or write elsewhere")


def _check_replaced(path: Path, kind: Kind, options: argparse.Namespace) -> None:
    targets = kind.targets(path)
    if getattr(options, "overwrite", False):
        if other := next((file for file in targets if kind.alike and not kind.alike(file)), None):
            raise ConfigError(f"{other}: is nothing that `cocal {options.command}` makes; write elsewhere")
        return
    if not targets:
        return
    from cocal.store.origin import made_by  # loads pydantic

    command = options.command
    made = kind.made or partial(made_by, stages=_KIN if command in _KIN else {command})
    # files beside a file are its other forms; what is gone by now was another job's, whose outputs Snakemake deletes
    unknown = (file for file in targets if not made(path if kind.beside and path.exists() else file))
    if foreign := next((file for file in unknown if file.exists()), None):
        if hasattr(options, "overwrite"):
            raise ConfigError(f"{foreign}: exists already; replace it by --overwrite, or write elsewhere")
        maker = f"does not say that `cocal {options.command}` has made it"
        raise ConfigError(f"{foreign}: exists, and {maker}; delete or move it, or write elsewhere")


def _inputs(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """The files and folders that a command reads, each with the name of its flag."""
    for name, value in vars(options).items():
        if name not in options.outputs and name not in _APART:
            for word in _words(value):
                if isinstance(word, Path) or name in _WORDS:
                    places = (word, str(word).partition("=")[2])
                    yield from ((name, Path(place)) for place in places if place and os.path.lexists(place))


def _words(value: object) -> Iterator[str | Path]:
    if isinstance(value, (str, Path)):
        yield value
    for word in value if isinstance(value, list) else ():
        yield from _words(word)


def _overlap(output: Path, other: Path, within: bool, holds: bool = False) -> str | None:
    """How an output overlaps with another place, or None; lying `within` and holding it count only if wanted."""
    ours, theirs = (Path(os.path.realpath(place)) for place in (output, other))
    if ours == theirs:
        return "is"
    if within and theirs in ours.parents:
        return "lies within"
    if holds and ours in theirs.parents:
        return "holds"
    return None
