"""The command line: `cocal COMMAND --help`.

The flags of a command are known without its libraries (`cocal.commands.catalogue`), so help and refusals are quick; the
module that does its work is imported once its flags, the places that it writes and its locks are in order.
"""

import argparse
import importlib
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path

from cocal import __version__
from cocal.commands.catalogue import OWN, commands_with, listing, work_of
from cocal.commands.flags import Command
from cocal.commands.outputs import check_outputs
from cocal.errors import BusyError, ClusterError, ConfigError, ContractError, EngineError
from cocal.runtime import lock, progress
from cocal.runtime.machine_errors import explain
from cocal.runtime.numerics import check_processor, environment

EXPECTED = (BusyError, ClusterError, ConfigError, ContractError, EngineError)
"""The errors whose message tells a user all that there is to know."""
RESUMED = "fit", "score"
"""The library's own commands whose interrupted work the same command resumes."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Expected errors (bad configuration, broken files, a full disk) end with one message and status 2, an interrupted
    command of `RESUMED` with status 130. Where the environment sets COCAL_TRACEBACK, the traceback comes before the
    message.
    """
    # OpenMP reads this when torch is loaded: waiting threads then go to sleep soon. By default they spin for
    # milliseconds, which costs a job of several threads nine tenths of its speed where other jobs use the cores.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    arguments = list(sys.argv[1:] if argv is None else argv)
    command, options = _options(arguments)
    progress.configure(progress.job_name(options.command, next(iter(_places(options)), None)))
    try:
        " ".join(arguments).encode()
        if hasattr(options, "numerics"):  # before the libraries that read these variables are loaded
            os.environ.update(environment(options.numerics))
        check_processor()
        check_outputs(options)
        with _writing(options, command):
            module, function = work_of(options.command).split(":")
            with _ctrl_c_later():
                work = getattr(importlib.import_module(module), function)
            with progress.warnings_again() if options.command in RESUMED else nullcontext():
                work(options)
    except BrokenPipeError:  # the reader of our output, such as head, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        if options.command not in RESUMED:
            raise
        from cocal.store.run_folder import leave_refused

        goes_on = "goes on from here" if leave_refused() else "begins anew, since nothing was finished yet"
        print(f"cocal {options.command}: interrupted; the same command {goes_on}", file=sys.stderr)
        return 130
    except Exception as error:
        if isinstance(error, EXPECTED):
            from cocal.store.run_folder import leave_refused

            message = str(error)
            leave_refused()
        elif isinstance(error, UnicodeEncodeError):
            name = error.object[max(0, error.start - 60) : error.end + 60]
            message = f"{os.fsencode(name)!r}: holds a name that is not UTF-8, as pages and tables are; rename the file"
        else:
            message = explain(error, _places(options), stage=command.locked)
        if message is None:
            raise
        if os.environ.get("COCAL_TRACEBACK"):
            traceback.print_exc()
        print(f"cocal {options.command}: error: {message}", file=sys.stderr)
        return 2
    return 0


def _options(arguments: Sequence[str]) -> tuple[Command, argparse.Namespace]:
    """Parse the arguments: the command and its options, with those that it passes on to another program.

    Only the chosen command gets its flags; `cocal stages` lists those of the workflow.
    """
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    commands = commands_with(chosen)
    of_study = {name: command for name, command in commands.items() if name not in OWN and not command.locked}
    parser = argparse.ArgumentParser(
        prog="cocal",
        description="Companion Confidence Calibration",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"your own policy:\n{listing(OWN)}\n\n"
        + (f"a study:\n{listing(of_study)}\n\n" if of_study else "")
        + "`cocal COMMAND --help` explains a command.",
    )
    parser.add_argument("--version", action="version", version=f"cocal {__version__}")
    parsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in commands.items():
        # without `help`, which would list all of them
        of_command = parsers.add_parser(name, description=command.description or command.summary)
        if name == chosen:
            command.add_to(of_command)
            if not (command.passes_on or command.ways):
                _check_flags(of_command, arguments)
    if chosen and chosen not in OWN and not of_study:
        parser.error(f"{chosen!r} is none of {', '.join(OWN)}; the study's take `pip install . ./src` in a checkout")
    options, unknown = parser.parse_known_args(arguments)
    if commands[options.command].passes_on:
        options.passed_on = unknown
    elif unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return commands[options.command], options


def _check_flags(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """End with an error if a command lacks a flag, and name the one that was probably meant; argparse would first miss
    that one where it is required. Beginnings of flags count as flags."""
    known = ["--help", *re.findall(r"--[\w-]+", parser.format_usage())]
    for name in (word.partition("=")[0] for word in takewhile("--".__ne__, words) if word.startswith("--")):
        if not any(flag.startswith(name) for flag in known):
            near = get_close_matches(name, known, 1, cutoff=0.7)
            parser.error(f"unrecognized arguments: {name}{f' (did you mean {near[0]}?)' if near else ''}")


def _places(options: argparse.Namespace) -> list[Path]:
    """The files and folders that a command writes."""
    places = (getattr(options, name, None) for name in ("run_folder", *getattr(options, "outputs", ())))
    return [place for place in places if place is not None]


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Delay Ctrl-C while libraries are loaded: during PyTorch's import it would abort the process."""
    asked: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked and callable(before):  # otherwise it is ignored, as behind nohup
        raise KeyboardInterrupt


@contextmanager
def _writing(options: argparse.Namespace, command: Command) -> Iterator[None]:
    """Hold the locks of what a stage writes, from before its imports, which take seconds, until its end.

    A job whose Snakemake was killed may go on, and must not write what a later job has made anew and others read. The
    outputs that come from a run folder need no lock of their own. Of the processes that share a training, the first
    one holds the locks.
    """
    places: list[Path] = []
    if command.locked and os.environ.get("RANK", "0") == "0":
        places = command.writes(options) if command.writes else _places(options)[:1]
    try:
        for place in places:
            lock.hold(place)
        yield
    finally:
        for place in places:
            lock.release(place)


if __name__ == "__main__":
    sys.exit(main())
