"""Verdicts on ordinary answers against math-verify's `parse` and `verify`; and a thousand answers that computer algebra
cannot evaluate against a thousand ordinary ones.

All times are processor time. Answers are judged as the verifier does, by spelling, notation and exact comparison,
without its processes.
"""

from cocal.answers.alignment import aligned
from cocal.answers.comparison import compare
from cocal.answers.notation import decided
from cocal.answers.spelling import plain_answer
from timing import row, timed

KINDS = {
    "fractions": lambda n: (rf"\frac{{{n}}}{{{2 * n + 1}}}", rf"\frac{{{3 * n}}}{{{6 * n + 3}}}"),
    "surds": lambda n: (rf"{n}\sqrt{{2}}", rf"\sqrt{{{2 * n * n}}}"),
    "expressions": lambda n: (f"(x+{n})^2", f"x^2+{2 * n}x+{n * n}"),
    "intervals": lambda n: (rf"[{n},\infty)", rf"x \ge {n}"),
    "wrong sets": lambda n: (f"{n}, {n + 1}", f"{n}, {n + 2}"),
}
HOSTILE = {
    "towers of exponents": lambda n: f"9^{{9^{{9^{{{n + 2}}}}}}}",
    "factorials": lambda n: f"{10**6 + n}!",
    "factorials of factorials": lambda n: f"(({n + 4}!)!)!",
    "binomials": lambda n: rf"\binom{{10^{{9}}}}{{{10**8 + n}}}",
}


def measure(quick: bool) -> list[dict]:
    """Time the verdicts on answers of each kind."""
    count, many = (20, 30) if quick else (300, 1000)
    ours("1/2", "0.5"), peers("1/2", "0.5")  # imports
    rows = []
    for kind, pair in KINDS.items():
        pairs = [pair(n) for n in range(2, count + 2)]
        seconds, theirs = (
            timed(lambda judge=judge, pairs=pairs: [judge(*pair) for pair in pairs]) for judge in (ours, peers)
        )
        note = f"{1e3 * seconds / count:.1f} ms a verdict"
        rows.append(
            row("Verdicts", f"{count} pairs of {kind}", seconds, "math-verify's parse and verify", theirs, note)
        )
    ordinary = timed(lambda: [compare("1/2", rf"\frac{{{n}}}{{{2 * n + 1}}}") for n in range(1, many + 1)])
    for kind, answer in HOSTILE.items():
        answers = [answer(n) for n in range(many)]
        seconds = timed(lambda answers=answers: refused(answers))
        rows.append(row("Hostile answers", f"{many} {kind}", seconds, f"{many} fractions by math-verify", ordinary))
    return rows


def ours(gold: str, answer: str) -> bool | None:
    """The verdict as the verifier reaches it, without its processes."""
    pair = aligned(plain_answer(gold), plain_answer(answer))
    verdict, _ = decided(*pair)
    return compare(*pair) if verdict is None else verdict


def peers(gold: str, answer: str) -> bool:
    """math-verify's verdict."""
    from math_verify import parse, verify

    expected, given = (parse(rf"\boxed{{{text}}}", parsing_timeout=None) for text in (gold, answer))
    return verify(expected, given, timeout_seconds=None)


def refused(answers: list[str]) -> None:
    """All of these answers are refused."""
    assert not any(ours("1/2", answer) for answer in answers)
