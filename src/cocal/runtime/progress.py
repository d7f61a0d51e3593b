"""Progress of a long job: now and then it logs how much is done and how much time is left."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import TypeVar

T = TypeVar("T", bound=Sized)

INTERVAL = 10.0
"""Least number of seconds between two progress lines of a job."""


def in_words(seconds: float) -> str:
    """A duration in its one or two largest units: "8 s", "2 min 25 s", "17 min", "3 h 20 min", "2 d 5 h"."""
    whole = round(max(seconds, 0.0))
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return _two(whole, 60, "min", 1, "s")
    minutes = round(whole / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return _two(minutes, 60, "h", 1, "min")
    return _two(round(minutes / 60), 24, "d", 1, "h")


def _two(amount: int, large: int, large_name: str, small: int, small_name: str) -> str:
    first, rest = divmod(amount, large)
    return f"{first} {large_name}" + (f" {rest // small} {small_name}" if rest // small else "")


class Progress:
    """Logs how much of a job is done and how long the rest will take, at most every `INTERVAL` seconds.

    It writes lines and draws no bar, because logs are files and several jobs share a terminal.

    Args:
        what: Name of the items that are counted, such as "step"; if it is empty, the line gives a percentage.
        total: Number of items, in any unit that grows evenly with time.
        done: Number of items that an earlier run has already done.
        clock: Function that returns the time in seconds.
    """

    def __init__(self, what: str, total: float, *, done: float = 0, clock: Callable[[], float] = time.monotonic):
        self._what = what
        self._total = total
        self._first = self._done = done
        self._clock = clock
        self._started = self._shown = clock()

    @property
    def left(self) -> float:
        """Seconds that the rest will take at the mean pace so far; NaN as long as nothing is done."""
        pace = self._done - self._first
        if not pace:
            return float("nan")
        return (self._clock() - self._started) / pace * (self._total - self._done)

    def add(self, items: float = 1, detail: str = "") -> None:
        """Count `items` more as done.

        Args:
            detail: A few numbers about them for the line. If the last items have a detail, their line is always logged.
        """
        self._done += items
        now, finished = self._clock(), self._done >= self._total
        if detail if finished else now - self._shown >= INTERVAL:
            self._shown = now
            logging.info(progress_line(self._what, self._done, self._total, None if finished else self.left, detail))


def progress_line(what: str, done: float, total: float, left: float | None, detail: str = "") -> str:
    """A line such as "step 3/60, accuracy 0.310, 2 min left", or "35 %, ..." if `what` is empty.

    Args:
        left: Seconds that are left; None if the job is finished.
    """
    count = f"{what} {done:g}/{total:g}" if what else f"{100 * done / total:.0f} %"
    return ", ".join(part for part in (count, detail, "" if left is None else f"{in_words(left)} left") if part)


def through(batches: Sequence[T], what: str) -> Iterator[T]:
    """Yield the batches and log how many of their items are done."""
    progress = Progress(what, sum(map(len, batches)))
    for batch in batches:
        yield batch
        progress.add(len(batch))
