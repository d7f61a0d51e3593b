"""All commands with their flags, as data. The work of a command is the module of `cocal.commands` that has its name,
which is imported when the flags are known to be right."""

from collections.abc import Mapping

from cocal.commands.catalogue.confidences import CONFIDENCES
from cocal.commands.catalogue.own import OWN
from cocal.commands.catalogue.policies import POLICIES
from cocal.commands.catalogue.study import STUDY
from cocal.commands.flags import Command

STAGES = POLICIES | CONFIDENCES
"""The stages of the workflow, which its rules call; `cocal stages` lists them."""
COMMANDS = OWN | STUDY | STAGES

__all__ = ["COMMANDS", "OWN", "STAGES", "STUDY", "listing"]


def listing(commands: Mapping[str, Command]) -> str:
    """Names and summaries of commands, a line each."""
    return "\n".join(f"  {name:<20} {command.summary}" for name, command in commands.items())
