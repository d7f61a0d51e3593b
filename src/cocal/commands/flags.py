"""Flags of several commands."""

from collections.abc import Sequence
from pathlib import Path

from cocal.errors import ConfigError


def named_folders(flag: str, words: Sequence[str], kinds: Sequence[str]) -> dict[str, list[Path]]:
    """Folders by kind from words of the form KIND=FOLDER, in the order given.

    Args:
        flag: for errors.
        words: of the command line.
        kinds: allowed ones.

    Raises:
        ConfigError: if a word has another form.
    """
    folders: dict[str, list[Path]] = {}
    for word in words:
        kind, equals, folder = word.partition("=")
        if not equals or not folder or kind not in kinds:
            raise ConfigError(f"{flag}: {word!r} is not KIND=FOLDER with one of {', '.join(kinds)}")
        folders.setdefault(kind, []).append(Path(folder))
    return folders
