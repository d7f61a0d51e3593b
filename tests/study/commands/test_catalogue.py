"""The catalogue of commands: each has its function."""

from importlib import import_module

from cocal.commands.catalogue import commands_with, work_of


def test_each_command_has_its_function():
    for name in commands_with(None):
        module, function = work_of(name).split(":")
        assert callable(getattr(import_module(module), function))
