"""How often the verifier refuses right answers and accepts wrong ones, on answers drawn from real golds by a script:
each rule below rewrites a gold into an answer that says the same, or that says something else.

    python benchmarks/drawn_answers.py deepscaler.jsonl math500.jsonl [--each 20] [--seed 0]

A file has a JSON object a line, with the gold in `answer`, `answers` or `gold`.
"""

import argparse
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings

Rewriting = Callable[[str], str | None]


def _replaced(pattern: str, new: str | Callable[[re.Match[str]], str]) -> Rewriting:
    """The gold with the first match replaced; None where there is none."""

    def rewrite(gold: str) -> str | None:
        changed, count = re.subn(pattern, new, gold, count=1)
        return changed if count and changed != gold else None

    return rewrite


def _grouped(found: re.Match[str]) -> str:
    return f"{int(found[0]):,}"


def _begun(name: str, first: int) -> str:
    return rf"{name}={first},{first + 1},{first + 2},\ldots"


_FORMULA = r"^(?=.*[\\^+])(?!.*[=<>,])(?!.*text)(.+)$"
SAME: dict[str, Rewriting] = {
    "displayed fraction": _replaced(r"\\frac", r"\\dfrac"),
    "solidus": _replaced(r"^(-?)\\frac\{(\d+)\}\{(\d+)\}$", r"\1\2/\3"),
    "in dollars": _replaced(r"^([^$]+)$", r"$\1$"),
    "full stop": _replaced(r"^(.*\d)$", r"\1."),
    "answer is": _replaced(r"^(.+)$", r"The answer is \1"),
    "thousands": _replaced(r"(?<![\d.,^_{])[1-9]\d{3,6}(?![\d.,}])", _grouped),
    "thousands in LaTeX": _replaced(
        r"(?<![\d.,^_{])[1-9]\d{3,6}(?![\d.,}])", lambda f: _grouped(f).replace(",", "{,}")
    ),
    "thousands by spaces": _replaced(r"^[1-9]\d{4,6}$", lambda f: _grouped(f).replace(",", r"\,")),
    "label": _replaced(r"^(-?\d+|\\frac\{\d+\}\{\d+\})$", r"x=\1"),
    "label of a set": _replaced(r"^([\[(].*,.*[\])])$", r"x\\in\1"),
    "degrees in words": _replaced(r"^(\d+)\^\{?\\circ\}?$", r"\1 degrees"),
    "percent in words": _replaced(r"^(\d+)\\%$", r"\1 percent"),
    "factor before brackets": _replaced(r"^(\d+)\\cdot\s*\(?(.+?)\)?$", r"\1\\left(\2\\right)"),
    "doubled brackets": _replaced(_FORMULA, r"\\left(\1\\right)"),
    "two times one half": _replaced(_FORMULA, r"2\\left(\\frac{\1}{2}\\right)"),
    "plus zero": _replaced(_FORMULA, r"\1+0"),
    "decimal": _replaced(r"^(\d+)\.5$", lambda f: rf"\frac{{{2 * int(f[1]) + 1}}}{{2}}"),
    "mixed number": _replaced(r"^(\d+)\.5$", r"\1 1/2"),
    "unit": _replaced(r"^(\d+)$", r"\1\\text{ units}"),
    "unit without a space": _replaced(r"^(\d+)$", r"\1units"),
    "half a matrix": _replaced(
        r"^\\begin\{pmatrix\}((?:[-\d\s&]|\\\\)+)(?=\\end)",
        lambda f: r"\frac{1}{2}\begin{pmatrix}" + re.sub(r"\d+", lambda number: str(2 * int(number[0])), f[1]),
    ),
    "list without an end": _replaced(r"^([a-z]) ?\\geq? ?(\d+)$", lambda f: _begun(f[1], int(f[2]))),
    "exact": _replaced(r"^(\d+)$", r"\1 (exact)"),
}
OTHER: dict[str, Rewriting] = {
    "next number": _replaced(r"\d(?=\D*$)", lambda f: str((int(f[0]) + 1) % 10)),
    "first digit": _replaced(r"[1-9]", lambda f: str(int(f[0]) % 9 + 1)),
    "other sign": _replaced(r"^(\d.*|\\frac\{[1-9].*)$", r"-\1"),
    "minus for plus": _replaced(r"(?<=.)\+", "-"),
    "upside down": _replaced(r"^(-?)\\frac\{(\d+)\}\{(\d+)\}$", r"\1\\frac{\3}{\2}"),
    "other bracket": _replaced(r"^\[(.*),(.*)\]$", r"(\1,\2)"),
    "set for interval": _replaced(r"^\[(-?\d+),\s*(-?\d+)\]$", r"\\{\1,\2\\}"),
    "twice": _replaced(r"^([1-9]\d*)$", r"2\1"),
    "percentage": _replaced(r"^([1-9]\d*)\^\{?\\circ\}?$", r"\1\\%"),
    "one more": _replaced(_FORMULA, r"\1+1"),
    "half": _replaced(r"^([1-9]\d*)$", r"\\frac{\1}{2}"),
    "added half": _replaced(r"^(\d+)$", r"\1+\\frac{1}{2}"),
    "added, not multiplied": _replaced(r"^(\d+)\\sqrt\{(\d+)\}$", r"\1+\\sqrt{\2}"),
    "another root": _replaced(r"\\sqrt\{(\d+)\}", lambda f: rf"\sqrt{{{int(f[1]) + 1}}}"),
    "no square": _replaced(r"\^\{?2\}?", ""),
    "millions": _replaced(r"^([1-9]\d*)$", r"\1\\text{ million}"),
    "twelfths": _replaced(r"^([1-9]\d*)$", r"\1\\text{ twelfths}"),
    "another letter": _replaced(r"(?<![\\A-Za-z])[a-dk-z](?![A-Za-z])", "h"),
    "first member alone": _replaced(r"^[(\[](-?\d+),.*[)\]]$", r"\1"),
    "interval for numbers": _replaced(r"^(-?\d+), (-?\d+)$", r"\1<x<\2"),
    "another beginning": _replaced(r"^([a-z]) ?\\geq? ?(\d+)$", lambda f: _begun(f[1], int(f[2]) + 1)),
    "several": _replaced(r"^([1-9]\d*)$", r"\1 \\text{ or } 0"),
}


def golds_of(files: list[Path]) -> list[str]:
    """The distinct golds of the files, in order."""
    found = {}
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            golds = next(entry[name] for name in ("answers", "answer", "gold") if entry.get(name))
            found |= dict.fromkeys([golds] if isinstance(golds, str) else map(str, golds))
    return list(found)


def drawn(golds: list[str], rules: dict[str, Rewriting], each: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """Kind, gold and answer: of every kind so many golds that it can rewrite."""
    for kind, rewrite in rules.items():
        draw = random.Random(f"{seed}/{kind}")
        fitting = [(gold, answer) for gold in golds if len(gold) < 80 and (answer := rewrite(gold)) is not None]
        for gold, answer in draw.sample(fitting, min(each, len(fitting))):
            yield kind, gold, answer


def main() -> None:
    """Print both rates, by kind where a verdict is wrong, and the pairs that are judged wrongly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    golds = golds_of(options.files)
    with Verifier(VerifierSettings(max_timeouts=1.0)) as verifier:
        for said, rules, right in (("refused", SAME, True), ("accepted", OTHER, False)):
            pairs = list(drawn(golds, rules, options.each, options.seed))
            values = verifier.correct([[gold] for _, gold, _ in pairs], [answer for *_, answer in pairs]).values
            wrong = [pair for pair, value in zip(pairs, values, strict=True) if bool(value) != right]
            for kind, gold, answer in wrong:
                print(f"  {kind}: {gold} | {answer}")
            one = "right" if right else "wrong"
            print(f"{said}: {len(wrong)} of {len(pairs)} {one} answers ({100 * len(wrong) / len(pairs):.1f} %)")


if __name__ == "__main__":
    main()
