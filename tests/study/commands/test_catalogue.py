"""The catalogue of commands: each has its function, and its flags, unless they are a stage's, need no library."""

import subprocess
import sys
from importlib import import_module

from cocal.commands.catalogue import commands_with, work_of


def test_each_command_has_its_function():
    for name in commands_with(None):
        module, function = work_of(name).split(":")
        assert callable(getattr(import_module(module), function))


def test_help_loads_nothing_heavy():
    code = (
        "import argparse, sys; from cocal.commands.catalogue import commands_with\n"
        "for command in commands_with(None).values():\n"
        "    callable(command.flags) or command.add_to(argparse.ArgumentParser())\n"
        "print(*{'numpy', 'pandas', 'pydantic', 'torch', 'yaml'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_command_for_an_own_policy_loads_nothing_of_a_study():
    """Not even the flags of the study's commands."""
    code = "import sys; from cocal.cli import main; main(['score', '--help'])"
    listed = "import atexit, sys; atexit.register(lambda: print(*sys.modules)); " + code
    done = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True)
    loaded = {*done.stdout.splitlines()[-1].split()}
    assert "cocal.commands.catalogue.own" in loaded
    assert not loaded & {
        "cocal_study.commands.catalogue.whole",
        "cocal_study.commands.catalogue.stages",
        "cocal_study.exhibits",
    }
