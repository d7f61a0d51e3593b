"""Words of the form KIND=VALUE, and the flags of commands that are printed for the next step."""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from cocal.errors import ConfigError


def named_folders(flag: str, words: Sequence[str], kinds: Sequence[str]) -> dict[str, list[Path]]:
    """Folders by kind, from words of the form KIND=FOLDER, in the order given.

    Args:
        flag: Name of the flag, for error messages.
        words: Words of the command line.
        kinds: Allowed kinds.

    Raises:
        ConfigError: if a word has another form.
    """
    folders: dict[str, list[Path]] = {}
    for word in words:
        kind, _, folder = word.partition("=")
        if not folder or kind not in kinds:
            raise ConfigError(f"{flag}: {word!r} is not KIND=FOLDER with one of {', '.join(kinds)}")
        folders.setdefault(kind, []).append(Path(folder))
    return folders


def field_mapping(words: Sequence[str]) -> dict[str, str]:
    """Names of fields by their meaning, from words of the form MEANING=NAME.

    Raises:
        ConfigError: if a word has another form.
    """
    mapping = {}
    for word in words:
        meaning, _, name = word.partition("=")
        if not meaning or not name:
            raise ConfigError(f"--field: {word!r} is not MEANING=NAME, such as response=output")
        mapping[meaning] = name
    return mapping


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
