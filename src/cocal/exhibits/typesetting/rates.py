"""Shares of the responses that the values of a table are computed from, and the mark of values that rest on too few."""

from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from cocal.config.evaluation import QualitySettings
from cocal.exhibits.base.layouts import Labelled
from cocal.exhibits.typesetting.blocks import method_labels, metric_block
from cocal.exhibits.typesetting.grid import Block, Cell
from cocal.exhibits.typesetting.wording import DEGENERATE, DOUBTFUL
from cocal.metrics.quality import RATES, degenerate, shortfalls
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


def _by_cell(numbers: pd.DataFrame) -> pd.DataFrame:
    return numbers.drop_duplicates(["dataset", "method"]).set_index(["dataset", "method"])[list(RATES)]


def short_rates(
    numbers: pd.DataFrame, floors: QualitySettings, groups: Mapping[str, Collection[str]]
) -> dict[tuple[str, str], set[str]]:
    """Return the names of the shares below their floor for each data set and method.

    Args:
        numbers: Table with the columns dataset, method and `RATES`.
        floors: Floors of the shares.
        groups: Data sets of each macro average, which has the names of all of them.
    """
    found = {key: set(shortfalls(rates, floors)) for key, rates in _by_cell(numbers).iterrows()}
    for macro, datasets in groups.items():
        for method in numbers["method"].unique():
            found[macro, method] = set().union(*(found[name, method] for name in datasets))
    return found


def doubts(short: Mapping[tuple[str, str], set[str]], floors: QualitySettings) -> str:
    """Return the sentence that explains the mark of doubtful values; "" if no share in `short` lies below its floor."""
    names = set().union(*short.values())
    parts = [text.format(100 * getattr(floors, name)) for name, text in _DOUBTS.items() if name in names]
    return f"{DOUBTFUL} marks values for which {', or '.join(parts)}." if parts else ""


def degenerate_cells(numbers: pd.DataFrame) -> set[tuple[str, str]]:
    """Return the data sets and methods whose confidence is degenerate.

    Args:
        numbers: Table with the columns dataset, method, metric, lower and upper.
    """
    bounds = {
        row.Index: (row.lower, row.upper) for row in numbers.set_index(["dataset", "method", "metric"]).itertuples()
    }
    cells = {key[:2] for key in bounds}
    return {one for one in cells if degenerate(bounds[*one, "mean_confidence"], bounds[*one, "auroc"])}


def degenerate_note(found: Collection[tuple[str, str]]) -> str:
    """Return the sentence that explains their mark; "" if there are none."""
    why = "that is constant or whose AUROC has a 95 % interval that holds one half"
    return f"{DEGENERATE} marks values of a confidence {why}." if found else ""


def rate_block(datasets: Sequence[Labelled], numbers: pd.DataFrame, methods: Sequence[str]) -> Block:
    """Return a block with the shares of the responses behind each method's values, in percent. Shares that apply to no
    method are left out.

    Args:
        datasets: Data sets from left to right.
        numbers: Table with the columns dataset, method and `RATES`.
        methods: Methods from top to bottom.
    """
    rates = _by_cell(numbers)
    known = [name for name in _HEADS if rates[name].notna().any()]
    cells = {(*key, name): Cell(metric_text("accuracy", row[name])) for key, row in rates.iterrows() for name in known}
    return metric_block("% of responses", datasets, known, [("", method_labels(methods))], cells, titles=_HEADS)
