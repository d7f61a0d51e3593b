"""Log lines of the commands, each with time, job and message, and the progress of a long job in them."""

import logging
import re
import sys
import time
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from logging.handlers import BufferingHandler
from pathlib import Path, PurePath
from typing import TypeVar

NAME_WIDTH = 36
"""Width of a job's name in characters; a longer name shifts the rest of its line to the right."""

_FILE = re.compile(r"\.(parquet|zarr|json|nc|csv|tex|pdf)$")


def job_name(command: str, place: Path | None) -> str:
    """A job's name: its command and what it works on, such as "train tiny grpo", by its run folder or first output."""
    parts = PurePath(_FILE.sub("", str(place or ""))).parts
    if "results" in parts:
        # results/features/tiny/grpo/..., results/runs/train/tiny/grpo
        room = parts[parts.index("results") + 1 :]
        parts = room[2:] if room[:1] == ("runs",) else room[1:]
    else:
        parts = parts[-1:]
    # only the factual domain is named
    return " ".join([command, *(part for part in parts if part != command)]).removesuffix("-mathematics")


def job_line(clock: str, name: str, text: str) -> str:
    """One log line: the time of day, the job's name and the message."""
    return f"{clock}  {name:<{NAME_WIDTH}}  {text}"


class _JobFormatter(logging.Formatter):
    def __init__(self, name: str):
        super().__init__("%(asctime)s", "%H:%M:%S")
        self._name = name

    def formatMessage(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname.lower()}: " if record.levelno > logging.INFO else ""
        return job_line(record.asctime, self._name, level + record.message)


def configure(name: str) -> None:
    """Log to standard error and put the job's name into every line. An earlier configuration of the log is kept."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JobFormatter(name))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


@contextmanager
def warnings_again() -> Iterator[None]:
    """Print the warnings of a job once more at its end, below what it says there."""
    kept = BufferingHandler(10_000)
    kept.setLevel(logging.WARNING)
    logging.getLogger().addHandler(kept)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(kept)
    if said := dict.fromkeys(record.getMessage() for record in kept.buffer):
        print("Warnings:", *said, sep="\n  ", file=sys.stderr)


T = TypeVar("T", bound=Sized)

INTERVAL = 10.0
"""Least number of seconds between two progress lines of a job."""


def in_words(seconds: float) -> str:
    """A duration in its one or two largest units: "8 s", "2 min 25 s", "17 min", "3 h 20 min", "2 d 5 h"."""
    whole = round(max(seconds, 0.0))
    minutes = round(whole / 60)
    if whole < 600:
        amount, parts, units = whole, 60, ("min", "s")
    elif minutes < 24 * 60:
        amount, parts, units = minutes, 60, ("h", "min")
    else:
        amount, parts, units = round(minutes / 60), 24, ("d", "h")
    both = zip(divmod(amount, parts), units, strict=True)
    return " ".join(f"{count} {unit}" for count, unit in both if count) or f"0 {units[1]}"


class Progress:
    """Logs how much of a job is done and how long the rest will take, at most every `INTERVAL` seconds.

    It writes lines and draws no bar, because logs are files and several jobs share a terminal.

    Args:
        what: Name of the items that are counted, such as "step"; if it is empty, the line gives a percentage.
        total: Number of items, in any unit that grows evenly with time.
        done: Number of items that an earlier run has already done.
    """

    def __init__(self, what: str, total: float, *, done: float = 0):
        self._what, self._total = what, total
        self._first = self._done = done
        self._started = self._shown = time.monotonic()

    def skip(self, items: float) -> None:
        """Count `items` as done by an earlier run, which say nothing about the speed of this one."""
        self._first += items
        self._done += items

    def add(self, items: float = 1, detail: str = "") -> None:
        """Count `items` more as done, with a few numbers for the line, which is always logged if the last have some."""
        self._done += items
        now, finished = time.monotonic(), self._done >= self._total
        if detail if finished else now - self._shown >= INTERVAL:
            self._shown = now
            left = None
            if not finished and self._done > self._first:
                left = (now - self._started) / (self._done - self._first) * (self._total - self._done)
            logging.info(progress_line(self._what, self._done, self._total, left, detail))


def progress_line(what: str, done: float, total: float, left: float | None, detail: str = "") -> str:
    """A line such as "step 3/60, accuracy 0.310, 2 min left", or "35 %, ..." if `what` is empty. `left` is the
    number of seconds that are left; None if it is not known, or the job is finished."""
    count = f"{what} {done:g}/{total:g}" if what else f"{100 * done / total:.0f} %"
    return ", ".join(part for part in (count, detail, "" if left is None else f"{in_words(left)} left") if part)


def through(batches: Sequence[T], what: str) -> Iterator[T]:
    """Yield the batches and log how many of their items are done."""
    progress = Progress(what, sum(map(len, batches)))
    for batch in batches:
        yield batch
        progress.add(len(batch))
