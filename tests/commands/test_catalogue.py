"""The catalogue of commands: each has its module, and its flags are known without any library."""

import pkgutil
import subprocess
import sys

from cocal import commands
from cocal.commands.catalogue import COMMANDS

SHARED = {"catalogue", "flags", "outputs", "words"}


def test_each_command_is_a_module():
    modules = {module.name for module in pkgutil.iter_modules(commands.__path__)} - SHARED
    assert modules == {name.replace("-", "_") for name in COMMANDS}


def test_help_loads_nothing_heavy():
    code = (
        "import argparse, sys; from cocal.cli import COMMANDS\n"
        "for command in COMMANDS.values():\n    command.add_to(argparse.ArgumentParser())\n"
        "print(*{'numpy', 'pandas', 'pydantic', 'torch', 'yaml'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
