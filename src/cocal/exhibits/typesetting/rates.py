"""Shares of the responses that the values of a table are computed from, and the mark of values that rest on too few."""

from collections.abc import Collection, Sequence

import pandas as pd

from cocal.config.evaluation import QualitySettings
from cocal.config.methods import METHODS
from cocal.exhibits.base.layouts import Labelled
from cocal.exhibits.typesetting.grid import Block, Cell, Group, Head, Row
from cocal.exhibits.typesetting.wording import DOUBTFUL
from cocal.metrics.quality import RATES, shortfalls
from cocal.metrics.shown import metric_text

_HEADS = {
    "valid_rate": "Valid",
    "answered_rate": "Answered",
    "decided_rate": "Decided",
    "truncation_rate": "Truncated",
    "p_true_mass": "True or False",
    "exact_match_accuracy": "Exact match",
}
_DOUBTS = {
    "valid_rate": "less than {:g} % of the responses have a valid confidence",
    "answered_rate": "less than {:g} % of the responses have an answer",
    "decided_rate": "less than {:g} % of the responses have a verdict",
    "p_true_mass": "the two words of P(True) have less than {:g} % of the probability on average",
}


def short_rates(
    numbers: pd.DataFrame, floors: QualitySettings, macro: str, datasets: Sequence[Labelled]
) -> dict[tuple[str, str], set[str]]:
    """Return the names of the shares below their floor for each data set and method; a macro average has those of all
    its data sets.

    Args:
        numbers: What `cocal.exhibits.typesetting.accuracy.prepare` returns.
        floors: Floors of the shares.
        macro: Name of the macro average.
        datasets: Data sets that are averaged.
    """
    found = {
        (dataset, method): set(shortfalls(rows[list(RATES)].iloc[0], floors))
        for (dataset, method), rows in numbers.groupby(["dataset", "method"], sort=False)
    }
    for method in numbers["method"].unique():
        found[macro, method] = set().union(*(found[dataset.name, method] for dataset in datasets))
    return found


def doubts(short: Collection[str], floors: QualitySettings) -> str:
    """Return the sentence that explains the mark of doubtful values.

    Args:
        short: Names of the shares that lie below their floor somewhere in the table.
    """
    parts = [text.format(100 * getattr(floors, name)) for name, text in _DOUBTS.items() if name in short]
    return f"{DOUBTFUL} marks values for which {', or '.join(parts)}."


def rate_block(datasets: Sequence[Labelled], numbers: pd.DataFrame, methods: Sequence[str]) -> Block:
    """Return a block with the shares of the responses behind each method's values, in percent. Shares that apply to no
    method are left out.

    Args:
        datasets: Data sets from left to right.
        numbers: What `cocal.exhibits.typesetting.accuracy.prepare` returns.
    """
    known = [name for name in _HEADS if numbers[name].notna().any()]
    rates = numbers.drop_duplicates(["dataset", "method"]).set_index(["dataset", "method"])

    def row(method: str) -> Row:
        shares = [rates.loc[(dataset.name, method), name] for dataset in datasets for name in known]
        return Row(METHODS[method].label, tuple(Cell(metric_text("accuracy", share)) for share in shares))

    return Block(
        corner="% of responses",
        heads=(
            tuple(Head(dataset.label, len(known)) for dataset in datasets),
            tuple(Head(_HEADS[name]) for _ in datasets for name in known),
        ),
        groups=(Group(tuple(map(row, methods))),),
    )
