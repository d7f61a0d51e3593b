"""All commands with their flags, and the names of the functions that do their work, which are imported later."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType

from cocal.commands.catalogue.own import OWN
from cocal.commands.flags import Command

GROUP = "cocal.commands"
"""The entry points of distributions that add commands: modules with `COMMANDS` and `WORK`."""


@cache
def _added() -> list[ModuleType]:
    return [point.load() for point in entry_points(group=GROUP)]


def commands_with(word: str | None) -> Mapping[str, Command]:
    """The library's commands, and those that other distributions add unless the word is one of the library's."""
    commands = dict(OWN)
    if word not in OWN:
        for module in _added():
            commands |= module.COMMANDS
    return commands


def work_of(command: str) -> str:
    """The function that does the work of a command, as MODULE:NAME."""
    if command in OWN:
        return f"cocal.commands.{command}:run_{command.replace('-', '_')}"
    return next(module.WORK[command] for module in _added() if command in module.WORK)


def listing(commands: Mapping[str, Command]) -> str:
    """Names and summaries of commands, a line each."""
    return "\n".join(f"  {name:<20} {command.summary}" for name, command in commands.items())
