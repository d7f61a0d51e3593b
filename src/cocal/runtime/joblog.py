"""Log lines of the commands, each with time, job and message: jobs that run at the same time share one terminal."""

import logging
import re
import sys
from collections.abc import Sequence
from pathlib import PurePath

NAME_WIDTH = 36
"""Width of a job's name in characters; a longer name shifts the rest of its line to the right."""

_FILE = re.compile(r"\.(parquet|zarr|json|nc|csv|tex|pdf)$")

_PLACES = ("--run-folder", "--output")
"""Flags whose path tells what a command works on; the first one that is given counts."""


def job_name(words: Sequence[str]) -> str:
    """A job's name: its command and what it works on, such as "train tiny grpo" or "metrics tiny-sweep".

    Args:
        words: The command line after `cocal`: the command and its flags.
    """
    command = next((word for word in words if not word.startswith("-")), "cocal")
    path = next((path for flag in _PLACES if (path := _value(words, flag))), "")
    parts = PurePath(_FILE.sub("", path)).parts
    if "results" in parts:
        # results/features/tiny/grpo/..., results/runs/train/tiny/grpo
        room = parts[parts.index("results") + 1 :]
        parts = room[2:] if room[:1] == ("runs",) else room[1:]
    else:
        parts = parts[-1:]
    # only the factual domain is named
    return " ".join([command, *(part for part in parts if part != command)]).removesuffix("-mathematics")


def _value(words: Sequence[str], flag: str) -> str:
    for place, word in enumerate(words):
        if word == flag:
            return words[place + 1] if place + 1 < len(words) else ""
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}=")
    return ""


def job_line(clock: str, name: str, text: str) -> str:
    """One log line: the time of day, the job's name and the message."""
    return f"{clock}  {name:<{NAME_WIDTH}}  {text}"


class _JobFormatter(logging.Formatter):
    def __init__(self, name: str):
        super().__init__(datefmt="%H:%M:%S")
        self._name = name

    def formatMessage(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname.lower()}: " if record.levelno > logging.INFO else ""
        return job_line(record.asctime, self._name, level + record.message)

    def usesTime(self) -> bool:
        return True


def configure(name: str) -> None:
    """Log to standard error and put the job's name into every line. An earlier configuration of the log is kept."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JobFormatter(name))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
