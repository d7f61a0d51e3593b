"""The verdict on the paper: the headline claims as README, a run's end, the report and the tables print them."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from cocal.metrics.shown import UNDEFINED, metric_text
from cocal_study.config.methods import METHODS
from cocal_study.evidence.headlines import CENTRAL, CHANCE, COMPARABLE, NAMES, NO, TOLERANCE, UNDECIDED, YES
from cocal_study.exhibits.typesetting.wording import SMOLLM2, counted, listed, number, signed

LEGEND = (
    "Differences are positive where they speak for the claim, in points for accuracies; over replicates they are means "
    "with the interval of Student's t, and “for it” counts the replicates that bear the claim out."
)
WORDS = (
    "A claim has the word yes if all of its intervals lie above zero, no if one lies below, and undecided otherwise; "
    f"SelfConsis may lead by {TOLERANCE[COMPARABLE]:g}. A baseline's AUROC is the one here/in the paper."
)
"""What the signs and the words of the table mean."""
READ = ("claim", "method", "baseline", "metric", "paper", "value", "lower", "upper", "replicates", "positive")
READ += ("language_model", "baseline_auroc", "paper_baseline_auroc", "word")
"""The columns of tables/verdict.csv from which the text is made."""
RANKING = "Baseline's AUROC"
"""Head of the column that says how well a baseline ranks, here/in the paper."""
_CENTRAL = {YES: "holds", NO: "does not hold", UNDECIDED: "is undecided"}


def answer(numbers: pd.DataFrame, scale: str) -> str:
    """The sentences that say whether the paper reproduces, by the numbers of tables/verdict; `scale` is the size of the
    policies in words."""
    first = numbers.drop_duplicates("claim").set_index("claim")["word"].str.extract(r"^(\w+)")[0]
    counts = [int((first == word).sum()) for word in (YES, NO, UNDECIDED)]
    told = (("holds", "hold"), ("does not", "do not"), ("is undecided", "are undecided"))
    spread = listed(list(map(_counted, counts, told)))
    central = first[first.index.str.startswith(CENTRAL)]
    words = [_CENTRAL[word] for word in central] or [_CENTRAL[UNDECIDED]]
    targets = central.index.str.removeprefix(f"{CENTRAL}, ")
    each = [f"{word} for the {target}" for word, target in zip(words, targets, strict=False)]
    return (
        f"With {scale}, of {counted(len(first), 'headline claim')} of the paper {spread}. The central claim, that a "
        "companion which learns while the policy trains (CoCal) beats the same one trained afterwards on as many fresh "
        f"answers (PostCal), {words[0] if len({*words}) == 1 else listed(each)}."
    )


def heads(numbers: pd.DataFrame) -> tuple[str, ...]:
    """The heads of the columns of `headlines`."""
    ours = ("Paper", head_of(numbers), "95 %", "For it", SMOLLM2)
    return ("Claim of the paper", "Holds here?", "Comparison", RANKING, *ours)


def headlines(numbers: pd.DataFrame) -> list[tuple[str, ...]]:
    """The headline claims, a row for each comparison under `heads`, by the numbers of tables/verdict; claim and word
    stand in a claim's first row."""
    return [
        (*(("", "") if place else (claim, word)), label_of(row), ranking_of(row), *compared_of(row))
        for claim, word, rows in claims_of(numbers)
        for place, row in enumerate(rows)
    ]


def lines(numbers: pd.DataFrame, scale: str) -> list[str]:
    """The answer, and a line for each headline claim with its comparisons."""
    said = [answer(numbers, scale)]
    for claim, word, rows in claims_of(numbers):
        said.append(f"* {claim}: {word}")
        for row in rows:
            paper, value, interval, _ = cells_of(row)
            ours = f"{head_of(numbers).lower()} {value}" + (f" ({interval})" if interval != UNDEFINED else "")
            other = said_of(row, row.language_model)
            parts = [f"paper {paper}", ours, *([f"{SMOLLM2} {other}"] if other != UNDEFINED else [])]
            whose, ranking = _name(row.baseline, row.metric), ranking_of(row).replace("/", ", paper ")
            beside = f" (AUROC of {whose} {ranking})" if ranking != UNDEFINED else ""
            said[-1] += f"\n    {label_of(row)}{beside}: {', '.join(parts)}"
    return said


def claims_of(numbers: pd.DataFrame) -> Iterator[tuple[str, str, Sequence]]:
    """Each claim with its word and its rows."""
    for (claim, word), rows in numbers.groupby(["claim", "word"], sort=False):
        yield str(claim), str(word), list(rows.itertuples())


def head_of(numbers: pd.DataFrame, prefix: str = "") -> str:
    """The head of the column of our differences."""
    of = numbers[f"{prefix}replicates"]
    return "This study" if of.isna().all() else of_replicates(of).capitalize()


def of_replicates(numbers: pd.Series) -> str:
    """How many replicates there are, such as "five to eight replicates" where claims differ in them."""
    least, most = int(numbers.min()), int(numbers.max())
    first = number(least) if number(most).isalpha() else str(least)
    return f"{first} to " * (least < most) + counted(most, "replicate")


def label_of(row) -> str:
    """The comparison of a row: of the policies for accuracies, else of methods."""
    return f"{_name(row.method, row.metric)} over {_name(row.baseline, row.metric)}, {NAMES[row.metric]}"


def _name(method: str, metric: str) -> str:
    if method == CHANCE:
        return "chance"
    policy = METHODS[method].policy
    return METHODS[method].label if metric != "accuracy" else policy if policy == "base" else policy.upper()


def ranking_of(row) -> str:
    """The AUROC of the baseline whose confidence is compared, here/in the paper."""
    both = row.baseline_auroc, row.paper_baseline_auroc
    return UNDEFINED if np.isnan(both).all() else "/".join(metric_text("auroc", value) for value in both)


def compared_of(row) -> tuple[str, ...]:
    """The cells of a difference, and the language model's."""
    return *cells_of(row), said_of(row, row.language_model)


def said_of(row, value: float) -> str:
    """A difference of a row in print."""
    return UNDEFINED if np.isnan(value) else signed(row.metric, value)


def cells_of(row, prefix: str = "", paper: bool = True) -> tuple[str, ...]:
    """The paper's difference, ours, its interval and how many replicates bear the claim out."""
    value, lower, upper, replicates, positive = (
        getattr(row, prefix + name) for name in ("value", "lower", "upper", "replicates", "positive")
    )
    interval = f"{said_of(row, lower)} to {said_of(row, upper)}" if lower < upper else UNDEFINED
    counts = UNDEFINED if np.isnan(replicates) else f"{positive:.0f} of {replicates:.0f}"
    return (*([said_of(row, row.paper)] if paper else []), said_of(row, value), interval, counts)


def _counted(count: int, said: tuple[str, str]) -> str:
    return f"{count or 'none'} {said[0] if count <= 1 else said[1]}"
