"""Verdicts on ordinary answers: spelling, notation and exact comparison, against math-verify's `parse` and `verify`."""

import time
from collections.abc import Callable

from cocal.answers.comparison import compare
from cocal.answers.notation import aligned, decided
from cocal.answers.spelling import plain_answer

KINDS = {
    "fractions": lambda n: (rf"\frac{{{n}}}{{{2 * n + 1}}}", rf"\frac{{{3 * n}}}{{{6 * n + 3}}}"),
    "surds": lambda n: (rf"{n}\sqrt{{2}}", rf"\sqrt{{{2 * n * n}}}"),
    "expressions": lambda n: (f"(x+{n})^2", f"x^2+{2 * n}x+{n * n}"),
    "intervals": lambda n: (rf"[{n},\infty)", rf"x \ge {n}"),
    "wrong sets": lambda n: (f"{n}, {n + 1}", f"{n}, {n + 2}"),
}


def measure(quick: bool) -> list[dict]:
    """Time pairs of each kind in this process, by processor time; the peer judges the same pairs."""
    count = 20 if quick else 300
    ours("1/2", "0.5"), peers("1/2", "0.5")  # imports
    rows = []
    for kind, pair in KINDS.items():
        pairs = [pair(n) for n in range(2, count + 2)]
        seconds, theirs = _timed(ours, pairs), _timed(peers, pairs)
        rows.append(
            {
                "benchmark": "Verdicts",
                "case": f"{count} pairs of {kind}",
                "seconds": seconds,
                "peer": "math-verify's parse and verify",
                "peer_seconds": theirs,
                "ratio": theirs / seconds,
                "note": f"{1e3 * seconds / count:.1f} ms a verdict",
            }
        )
    return rows


def ours(gold: str, answer: str) -> bool | None:
    """The verdict as the verifier reaches it, without its processes."""
    pair = aligned(plain_answer(gold), plain_answer(answer))
    verdict = decided(*pair)
    return compare(*pair) if verdict is None else verdict


def peers(gold: str, answer: str) -> bool:
    """math-verify's verdict."""
    from math_verify import parse, verify

    expected, given = (parse(rf"\boxed{{{text}}}", parsing_timeout=None) for text in (gold, answer))
    return verify(expected, given, timeout_seconds=None)


def _timed(judge: Callable[[str, str], bool | None], pairs: list[tuple[str, str]]) -> float:
    begun = time.process_time()
    for pair in pairs:
        judge(*pair)
    return time.process_time() - begun
