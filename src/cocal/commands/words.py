"""Words of the form KIND=VALUE, and the flags of commands that are printed for the next step."""

import argparse
import re
from collections.abc import Mapping, Sequence

from cocal.errors import ConfigError


def pairs(flag: str, words: Sequence[str], form: str) -> list[tuple[str, str]]:
    """Both sides of words such as KIND=FOLDER.

    Args:
        flag: Name of the flag, for the error.
        words: Words of the command line.
        form: The form that they must have, in words, for the error.

    Raises:
        ConfigError: if a word has another form.
    """
    found = []
    for word in words:
        left, _, right = word.partition("=")
        if not left or not right:
            raise ConfigError(f"{flag}: {word!r} is not {form}")
        found.append((left, right))
    return found


def field_mapping(words: Sequence[str]) -> dict[str, str]:
    """Names of fields by their meaning, from words of the form MEANING=NAME; see `pairs`."""
    return dict(pairs("--field", words, "MEANING=NAME, such as response=output"))


def one_field_each(words: Sequence[str]) -> list[str]:
    """A command line in which each `--field` has one value.

    The flag takes one, so that it leaves the files behind it alone; several behind one `--field`, as it was once
    written, are told from files by their form.
    """
    found: list[str] = []
    for word in words:
        if found[-2:-1] == ["--field"] and re.match("[a-z_]+=", word):
            found.append("--field")
        found.append(word)
    return found


def field_flags(mapping: Mapping[str, str]) -> list[str]:
    """The words of a command line that give these names of fields by their meaning."""
    return [word for meaning, name in mapping.items() for word in ("--field", f"{meaning}={name}")]


def given_flags(options: argparse.Namespace, defaults: Mapping[str, object]) -> list[str]:
    """The flags of a command that do not have their default, as words for another command."""
    given = {name: getattr(options, name) for name in defaults if getattr(options, name) != defaults[name]}
    return [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
