"""Flags as data, the flags that several commands share, and words of the form KIND=VALUE. No library is loaded here."""

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cocal.commands.outputs import FILE, Kind

T = TypeVar("T")


def checked(parse: Callable[[str], T], allowed: Callable[[T], bool], words: str) -> Callable[[str], T]:
    """A type for argparse that refuses other values than those that `words` describe."""

    def read(word: str) -> T:
        with suppress(ValueError):
            if allowed(value := parse(word)):
                return value
        raise argparse.ArgumentTypeError(f"{word!r} is not {words}")

    return read


COUNT = checked(int, lambda value: value >= 1, "a whole number from 1 on")
INDEX = checked(int, lambda value: value >= 0, "a whole number from 0 on")
SEED = checked(int, lambda value: 0 <= value < 2**32, "a whole number from 0 to 4294967295")
RESAMPLES = checked(int, lambda value: value >= 20, "a whole number from 20 on, which an interval of 95 % needs")
FINITE = checked(float, math.isfinite, "a finite number")
SHARE = checked(float, lambda value: 0 <= value <= 1, "a number from 0 to 1")
NEW_FIELD = checked(str, lambda name: name.strip() not in ("", "confidence_ids"), "the name of a new field")
CHANCE = checked(float, lambda value: 0 < value < 1, "a number between 0 and 1")


class Flag(NamedTuple):
    """A flag, or an argument, of a command."""

    name: str
    """Its name, with two hyphens if it is a flag, and what stands for its value in the help ("--cache FOLDER")."""
    options: Mapping[str, Any]
    """Arguments of argparse's `add_argument`."""
    writes: Kind | None = None
    """What the command writes there, if it is an output."""

    def add_to(self, parser: "argparse._ActionsContainer") -> None:
        """Add the flag to a parser, whose default `outputs` holds the kind of every output by its name."""
        name, _, metavar = self.name.partition(" ")
        shown: dict[str, Any] = {"metavar": metavar} if metavar else {}
        action = parser.add_argument(name, **self.options, **shown)
        if self.writes:
            parser.set_defaults(outputs={**(parser.get_default("outputs") or {}), action.dest: self.writes})


class Either(NamedTuple):
    """Flags of which a user gives at most one, or exactly one."""

    flags: Sequence[Flag]
    required: bool = False

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_mutually_exclusive_group(required=self.required)
        for argument in self.flags:
            argument.add_to(group)


class Command(NamedTuple):
    """A command."""

    summary: str
    flags: Sequence[Flag | Either] | Callable[[argparse.ArgumentParser], None] = ()
    """Its flags, in the order of its help, or a function that adds them and the text of its help to a parser."""
    ways: Mapping[str, "Command"] = {}
    """Commands below it, by name."""
    writes: Callable[[argparse.Namespace], list[Path]] | None = None
    """Gives the paths that only one process at a time may write; by default the run folder or the first output."""
    description: str = ""
    """Text of its help, if the summary does not suffice."""
    passes_on: bool = False
    """Whether it passes unknown flags on to another program, as `passed_on` of its options."""
    locked: bool = False
    """Whether it locks what it writes."""

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags to the parser of the command."""
        if callable(self.flags):
            self.flags(parser)
            return
        for argument in self.flags:
            argument.add_to(parser)
        if self.ways:
            ways = parser.add_subparsers(dest="way", required=True, metavar=" | ".join(self.ways))
            for name, command in self.ways.items():
                command.add_to(ways.add_parser(name, description=command.summary))


def flag(name: str, explanation: str | None = None, **options: Any) -> Flag:
    """A flag that may be left out, or an argument."""
    return Flag(name, {"help": explanation, **options})


def required(name: str, explanation: str | None = None, **options: Any) -> Flag:
    """A flag that must be given."""
    return flag(name, explanation, required=True, **options)


def output(name: str, explanation: str, kind: Kind = FILE, **options: Any) -> Flag:
    """The flag of a file or folder that the command writes; what it would replace by mistake is refused."""
    return Flag(name, {"help": explanation, "type": Path, **options}, kind)


OVERWRITE = flag("--overwrite", "replace an output that exists", action="store_true")
NUMERICS = flag(
    "--numerics",
    "portable: the same bytes on every x86-64 processor with AVX2, as `numerics` of a study (default: native)",
    default="native",
    choices=["native", "portable"],
)
"""The flag of the numerics, by which confidences can equal those of a study to the last bit."""


def model(explanation: str) -> tuple[Flag, Flag]:
    """The flags of a language model that is a folder or lies on the Hub."""
    return (
        required("--model MODEL", f"{explanation}; a folder, or a name on the Hub"),
        flag("--revision", "commit or branch of a model on the Hub (default: main)"),
    )


def pairs(name: str, explanation: str, example: str, read: Callable[[str], Any] = str) -> Flag:
    """A flag of the form MEANING=NAME, which may be repeated; `dict` turns its value into a mapping. The function
    `read` parses what follows the equals sign."""

    def parse(word: str) -> tuple[str, Any]:
        left, _, right = word.partition("=")
        return left if right else "", read(right)

    kind = checked(parse, lambda pair: bool(pair[0]), f"{name.partition(' ')[2]}, such as {example}")
    return flag(name, f"{explanation}; give the flag once for each", default=[], action="append", type=kind)


def fields(examples: str) -> Flag:
    """The flag that says which fields of a file mean what."""
    explanation = f"name of a field where it is not found by itself, {examples}"
    return pairs("--field MEANING=NAME", explanation, "response=output")


def json_or_text(word: str) -> Any:
    """Parse a word as JSON; return the word itself if it is not JSON."""
    try:
        return json.loads(word)
    except ValueError:
        return word


IGNORED = flag(
    "--ignore NAME",
    "a field that is left unread although it may have changed prompts or responses, such as system or mask; `prompt` "
    "or `response`: its text is not compared with ids or with each other; `markers` tell nothing; once for each",
    default=[],
    action="append",
)
"""The flag for fields and checks that a user wants to be ignored."""


def field_flags(mapping: Mapping[str, str]) -> list[str]:
    """The words of a command line that state these field names by their meaning."""
    return [word for meaning, name in mapping.items() for word in ("--field", f"{meaning}={name}")]


def given_flags(options: argparse.Namespace, defaults: Mapping[str, object]) -> list[str]:
    """The flags of a command that differ from their defaults, as words for another command."""
    given = {name: getattr(options, name) for name in defaults if getattr(options, name) != defaults[name]}
    return [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
