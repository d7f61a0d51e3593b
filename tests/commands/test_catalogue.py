"""The catalogue of commands: each has its function, and its flags are known without any library."""

import subprocess
import sys
from importlib import import_module

from cocal.commands.catalogue import COMMANDS, work_of


def test_each_command_has_its_function():
    for name in COMMANDS:
        module, function = work_of(name).split(":")
        assert callable(getattr(import_module(module), function))


def test_help_loads_nothing_heavy():
    code = (
        "import argparse, sys; from cocal.cli import COMMANDS\n"
        "for command in COMMANDS.values():\n    command.add_to(argparse.ArgumentParser())\n"
        "print(*{'numpy', 'pandas', 'pydantic', 'torch', 'yaml'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
