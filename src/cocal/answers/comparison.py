"""Comparison of two answers by math-verify, and setup of the processes that run it; only they import math_verify."""

import logging
import re
import resource
import signal
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sympy import Expr

_PERCENT = re.compile(r"\s*\\?%$")
_INEQUALITY = re.compile(r"[<>≤≥]|\\(?:[lg]eq?(?:slant)?|lt|gt)(?![A-Za-z])")


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


def compare(gold: str, answer: str) -> bool:
    r"""True if math-verify accepts `answer` for `gold`. Both are LaTeX or plain text without `\boxed`.

    If one is a percentage such as `12.5\%`, the other may be the fraction `0.125` or the bare number `12.5`.
    math-verify itself accepts bare numbers only for integer percentages. It also accepts an interval for an inequality
    only in one order of the two, which does not matter here.

    math-verify's own time-outs are off, because they use SIGALRM, which cannot stop a hanging C call.
    """
    if _verified(gold, answer):
        return True
    if bool(_INEQUALITY.search(gold)) != bool(_INEQUALITY.search(answer)):
        return _verified(answer, gold)
    in_percent = bool(_PERCENT.search(gold)) != bool(_PERCENT.search(answer))
    return in_percent and _verified(_PERCENT.sub("", gold), _PERCENT.sub("", answer))


def _verified(gold: str, answer: str) -> bool:
    from math_verify import verify

    expected, given = _parsed(gold), _parsed(answer)
    if {_infinite(expected), _infinite(given)} == {True, False}:
        return False
    return bool(verify(expected, given, timeout_seconds=None))


def _infinite(parsed: list) -> bool | None:
    """True if a parsed answer is infinite or no number at all; None for sets, relations and texts.

    sympy may simplify the difference of such a value and a number to zero, as in 1/2 - |infinity| * 0.7.
    """
    from sympy import Expr

    values = [expression for expression in parsed if isinstance(expression, Expr)]
    return any(map(_unbounded, values)) if values else None


def _unbounded(expression: "Expr") -> bool:
    """True if the value is infinite or nan; infinity may be a limit of a sum, or below a fraction line."""
    from sympy import nan, oo, zoo

    if not expression.has(oo, -oo, zoo, nan):
        return False
    try:
        return expression.doit() in (oo, -oo, zoo, nan)
    except Exception:  # sympy raises errors of all kinds; math-verify passes over them, too
        return False


@lru_cache(maxsize=256)
def _parsed(text: str) -> list:
    """The parsed text; it is cached because the pool of a question compares each answer with all others."""
    from math_verify import parse

    return parse(rf"\boxed{{{text}}}", parsing_timeout=None)


def compare_all(pairs: list[tuple[str, str]], seconds: float) -> list[bool]:
    """The result of `compare` for each (gold, answer) pair. SIGPROF ends the process if they take more than `seconds`
    of processor time in total; waiting for the processor does not count."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return [compare(gold, answer) for gold, answer in pairs]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
