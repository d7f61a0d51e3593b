"""Comparison of two answers by computer algebra, and setup of the processes that run it; only they import sympy."""

import logging
import re
import resource
import signal
import sys
from pathlib import Path

_HYPHENED = re.compile(r"[0-9]+(?:-[0-9]+)+")
"""A score, a range of pages or a date, such as 3-2; two that are written differently are never equal."""


def prepare(memory_mb: int) -> None:
    """Set up a checking process.

    Args:
        memory_mb: Address space in MiB that comparisons may use in addition to what the process holds at its start.
            An allocation beyond it fails.

    Raises:
        RuntimeError: if it finds that 1/2 and 0.5 differ. A process that cannot compare would call every answer wrong.
    """
    for end in (signal.SIGTERM, signal.SIGPROF):
        signal.signal(end, signal.SIG_DFL)  # a Python handler would wait for a hanging C call to return
    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that its own time-outs are off
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + memory_mb * 2**20
        _, inherited = resource.getrlimit(resource.RLIMIT_AS)
        if inherited == resource.RLIM_INFINITY or limit < inherited:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    if not compare("1/2", "0.5"):
        raise RuntimeError("math-verify cannot compare 1/2 with 0.5")


def compare(gold: str, answer: str) -> bool | None:
    """True if two answers in the spelling of `cocal.answers.spelling` are equal.

    None if neither can be read or computer algebra fails on them; then only their texts could tell, and these differ.
    """
    from cocal.answers.algebra import equal
    from cocal.answers.reading import alternatives, read

    if _HYPHENED.fullmatch(gold) and _HYPHENED.fullmatch(answer):
        return False
    first, second = read(gold), read(answer)
    try:
        forms = [read(piece) for piece in alternatives(gold)]
        if len(forms) > 1 and None not in (*forms, second) and all(equal(forms[0], form) for form in forms[1:]):
            return bool(equal(forms[0], second))
        if first is None or second is None:
            return None if first is second else False
        return bool(equal(first, second))
    except MemoryError:
        raise
    except Exception:  # sympy raises errors of all kinds
        return None


def compare_all(pairs: list[tuple[str, str]], seconds: float) -> list[bool | None]:
    """The result of `compare` for each (gold, answer) pair. SIGPROF ends the process if they take more than `seconds`
    of processor time in total; waiting for the processor does not count."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return [compare(gold, answer) for gold, answer in pairs]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
