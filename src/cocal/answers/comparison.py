"""One comparison by math-verify, and what the processes that run it need.

math_verify is imported by those processes alone.
"""

import logging
import re
import resource
import signal
import sys
from functools import lru_cache
from pathlib import Path

_PERCENT = re.compile(r"\s*\\?%$")


def prepare(memory_mb: int) -> None:
    """Set up a checking process.

    Args:
        memory_mb: address space, in MiB, that comparisons may take beyond what the process holds at its start (the
            imports of the main program count for nothing). An allocation beyond it fails.

    Raises:
        RuntimeError: if a comparison that must hold does not. A process in which nothing can be compared would
            otherwise call every answer wrong.
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
    r"""Whether math-verify takes `answer` for `gold`. Both are LaTeX or plain text without `\boxed`.

    Where one is a percentage, the other may be its share (`12.5\%`, `0.125`) or the bare number (`12.5`): math-verify
    takes both of integers, and the share alone of other numbers.

    math-verify's own time-outs are off: they rest on SIGALRM, which cannot stop a hanging C call.
    """
    return _verified(gold, answer) or (
        bool(_PERCENT.search(gold)) != bool(_PERCENT.search(answer))
        and _verified(_PERCENT.sub("", gold), _PERCENT.sub("", answer))
    )


def _verified(gold: str, answer: str) -> bool:
    from math_verify import verify

    return bool(verify(_parsed(gold), _parsed(answer), timeout_seconds=None))


@lru_cache(maxsize=256)
def _parsed(text: str) -> list:
    """The pool of a question compares each answer with all others."""
    from math_verify import parse

    return parse(rf"\boxed{{{text}}}", parsing_timeout=None)


def compare_all(pairs: list[tuple[str, str]], seconds: float) -> list[bool]:
    """`compare` for each (gold, answer); SIGPROF ends a process that spends more than `seconds` of processor time on
    them, however long it had to wait for the processor."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return [compare(gold, answer) for gold, answer in pairs]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
