"""A process that has loaded libraries once and forks for each command: `python -m cocal_study.commands.worker FD`.

PyTorch and transformers take seconds to load, which is most of what a short job of a study takes. Loading them here
starts no thread and touches no GPU, so a fork of this process is like a new one that has loaded them already.
"""

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from cocal.cli import main
from cocal.commands.catalogue import work_of
from cocal_study.stages import MODULES
from cocal_study.stages.base import stage_of

LIBRARIES = ("transformers.models.qwen3.modeling_qwen3", "cocal_study.generation.sampling")
"""Modules that import nearly everything that is loaded by the stages whose products depend on the study's numerics."""


class Order(NamedTuple):
    """A command that a worker is to run."""

    words: list[str]
    """The words after `cocal`."""
    settings: Mapping[str, str]
    """Environment variables that are set for the command."""
    log: str
    """File that takes what it prints."""
    shown: bool
    """True if the output is printed, too."""


def load(command: str) -> None:
    """Import the modules of a command that take long to load."""
    import_module(work_of(command).partition(":")[0])
    if any(command in stages for stages in MODULES.values()) and stage_of(command).computed:
        for name in LIBRARIES:
            import_module(name)


def next_order(asked: Connection) -> Order:
    """Run each incoming order in a fork, and answer with the fork's process id and exit status. Returns only in the
    fork; the worker itself exits after the last order."""
    # both signals may go to all processes of a terminal; the fork obeys them, and the worker has to report its end
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    while True:
        try:
            order = asked.recv()
        except EOFError:
            sys.exit()
        with suppress(Exception):  # the command itself will say what is wrong
            load(order.words[0])
        gc.freeze()  # as Python's documentation advises before a fork: untouched pages stay shared
        printed = subprocess.Popen(["tee", order.log], stdin=subprocess.PIPE) if order.shown else None
        log = printed.stdin if printed else Path(order.log).open("wb")  # noqa: SIM115 (the fork's output)
        assert log is not None
        if not (process := os.fork()):
            asked.close()
            for stream in (sys.stdout, sys.stderr):
                os.dup2(log.fileno(), stream.fileno())
            log.close()
            return order
        log.close()
        with suppress(BrokenPipeError):  # Snakemake was killed
            asked.send(process)
            _, status = os.waitpid(process, 0)
            if printed:
                printed.wait()
            asked.send(os.waitstatus_to_exitcode(status))


def run(order: Order) -> int:
    """Run a command as a process of its own would, and return its exit status."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ |= order.settings
    sys.argv = ["cocal", *order.words]
    return main()


if __name__ == "__main__":
    sys.exit(run(next_order(Connection(int(sys.argv[1])))))
