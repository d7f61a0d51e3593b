"""The verdict on the paper in words: the headline claims, which README, a run's end and the report have in common."""

import re
from collections.abc import Sequence
from itertools import chain

import numpy as np
import pandas as pd

from cocal_study.config.methods import METHODS
from cocal_study.evidence.headlines import CENTRAL, NAMES, NO, RANKED, STATED, TRAINED, UNDECIDED, YES
from cocal_study.exhibits.typesetting.wording import SMOLLM2, counted, listed, number

BREAK = "<br>"
"""What separates the comparisons in a cell of the table in words."""
READ = ("claim", "method", "rival", "metric", "paper", "value", "lower", "upper", "replicates", "positive")
READ += ("language_model", "word")
"""The columns of tables/verdict.csv of which the words are made."""
_CENTRAL = {YES: "holds", NO: "does not hold", UNDECIDED: "is undecided"}
_BEATS = {YES: "{} beats {}.", NO: "{} does not beat {}.", UNDECIDED: "Whether {} beats {} is undecided."}
_RANKS = _BEATS | {NO: "{} loses to {}."}  # this headline has one comparison


def answer(numbers: pd.DataFrame, scale: str) -> str:
    """The sentences that say whether the paper reproduces, by the numbers of tables/verdict, with policies of the size
    that is given in words."""
    first = numbers.drop_duplicates("claim").set_index("claim")["word"].str.extract(r"^(\w+)")[0]
    counts = [int((first == word).sum()) for word in (YES, NO, UNDECIDED)]
    told = (("holds", "hold"), ("does not", "do not"), ("is undecided", "are undecided"))
    spread = listed(list(map(_counted, counts, told)))
    said = [f"With {scale}, of {counted(len(first), 'headline claim')} of the paper {spread}."]
    if first.get(TRAINED) == YES:
        said.append("Training improves accuracy.")
    if STATED in first:
        of_claim = numbers[numbers["claim"] == STATED]
        rivals = listed([METHODS[name].label for name in of_claim["rival"].unique()])
        doubt = re.search(r", ((?:but|over) [^(;]*)", of_claim["word"].iloc[0])
        theirs = f"what {rivals} train policies to state{f' ({doubt[1].strip()})' if doubt else ''}"
        said.append(_BEATS[first[STATED]].format("CoCal's confidence", theirs))
    if RANKED in first:
        ranked = _RANKS[first[RANKED]].format("CoCal", "the policy's own token probability in ranking answers")
        said.append(ranked)
    central = first[first.index.str.startswith(CENTRAL)]
    words = [_CENTRAL[word] for word in central] or [_CENTRAL[UNDECIDED]]
    targets = central.index.str.removeprefix(f"{CENTRAL}, ")
    each = [f"{word} for the {target}" for word, target in zip(words, targets, strict=False)]
    said.append(
        "The central claim, that a companion which learns while the policy trains (CoCal) beats the same one trained "
        f"afterwards on as many fresh answers (PostCal), {words[0] if len({*words}) == 1 else listed(each)}."
    )
    return " ".join(said)


def heads(numbers: pd.DataFrame) -> tuple[str, ...]:
    """The heads of the columns of `headlines`."""
    return (
        "Claim of the paper",
        "Holds here?",
        "Paper",
        f"Here, {_ours(numbers)}",
        f"{SMOLLM2}, one run (not counted)",
    )


def headlines(numbers: pd.DataFrame) -> list[tuple[str, ...]]:
    """The headline claims in words, a row for each under `heads`, by the numbers of tables/verdict."""
    rows = []
    for (claim, word), part in numbers.groupby(["claim", "word"], sort=False):
        found = list(part.itertuples())
        rows.append((claim, word, *(_said(found, column) for column in ("paper", "value", "language_model"))))
    return rows


def lines(numbers: pd.DataFrame, scale: str) -> list[str]:
    """The answer, and a line for each headline claim."""
    said, sources = [answer(numbers, scale)], ("the paper", _ours(numbers), SMOLLM2)
    for claim, word, *texts in headlines(numbers):
        told = zip(sources, texts, strict=True)
        parts = (f"    {source}: {text.replace(BREAK, ', ')}" for source, text in told if text)
        said.append("\n".join([f"* {claim}: {word}", *parts]))
    return said


def _ours(numbers: pd.DataFrame) -> str:
    return "this study" if numbers["replicates"].isna().all() else of_replicates(numbers["replicates"])


def of_replicates(numbers: pd.Series) -> str:
    """How many replicates there are, such as "five to eight replicates" where claims differ in them."""
    least, most = int(numbers.min()), int(numbers.max())
    first = number(least) if number(most).isalpha() else str(least)
    return f"{first} to " * (least < most) + counted(most, "replicate")


def _said(rows: Sequence, column: str) -> str:
    """The numbers of one source for all comparisons of a claim, each in words; "" if there are none."""
    by_rival: dict[str, list[str]] = {}
    for row in rows:
        value = getattr(row, column)
        if np.isnan(value):
            continue
        # points are of accuracy, which such claims name
        text = _apart(row, value) if row.metric == "accuracy" else f"{NAMES[row.metric]} {_apart(row, value)}"
        if column == "value" and row.lower < row.upper:
            text += f" ({_range(row)}"
            text += ")" if np.isnan(row.replicates) else f"; {row.positive:.0f}/{row.replicates:.0f})"
        by_rival.setdefault(row.rival, []).append(text)
    if len({row.rival for row in rows}) == 1:
        return BREAK.join(chain.from_iterable(by_rival.values()))
    return BREAK.join(f"over {METHODS[rival].label}: {', '.join(said)}" for rival, said in by_rival.items())


def _range(row) -> str:
    """The interval of a difference in words; where both ends are on one side, it is the difference's own."""
    if row.lower * row.upper <= 0:
        return f"{_apart(row, row.lower)} to {_apart(row, row.upper)}"
    return "–".join(_size(row, end) for end in sorted((row.lower, row.upper), key=abs))


def _apart(row, value: float) -> str:
    """A difference in words, such as "0.009 worse" or "1.6 points better"."""
    if not float(_size(row, value)):
        return "the same" if row.rival else "at chance"
    unit = " points" if row.metric == "accuracy" else ""
    words = ("better", "worse") if row.rival else ("above chance", "below chance")
    return f"{_size(row, value)}{unit} {words[value < 0]}"


def _size(row, value: float) -> str:
    return f"{abs(100 * value):.1f}" if row.metric == "accuracy" else f"{abs(value):.3f}"


def _counted(count: int, said: tuple[str, str]) -> str:
    return f"{count or 'none'} {said[0] if count <= 1 else said[1]}"
