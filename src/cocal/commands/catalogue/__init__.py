"""All commands with their flags, and the names of the functions that do their work, which are imported later."""

from collections.abc import Mapping
from importlib import import_module

from cocal.commands.catalogue.own import OWN
from cocal.commands.flags import Command

_STUDY = "cocal_study.commands.catalogue.whole"
"""The commands of a study, which the library finds by this name alone, when one of them or the list is asked for."""


def commands_with(word: str | None) -> Mapping[str, Command]:
    """The commands for a policy of one's own, and those of a study too unless the word is one of the former."""
    return OWN if word in OWN else OWN | import_module(_STUDY).COMMANDS


def work_of(command: str) -> str:
    """The function that does the work of a command, as MODULE:NAME."""
    if command not in OWN:
        return import_module(_STUDY).WORK[command]
    return f"cocal.commands.{command}:run_{command.replace('-', '_')}"


def listing(commands: Mapping[str, Command]) -> str:
    """Names and summaries of commands, a line each."""
    return "\n".join(f"  {name:<20} {command.summary}" for name, command in commands.items())
