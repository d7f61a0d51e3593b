"""Blocks with the same metrics of several data sets, or other cases, side by side, and the marks of their columns."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any

import pandas as pd

from cocal.config.methods import METHODS
from cocal.exhibits.base.layouts import Labelled
from cocal.exhibits.typesetting.grid import Block, Cell, Group, Head, Mark, Row
from cocal.exhibits.typesetting.numbers import HEADS
from cocal.metrics.quality import RESTS_ON
from cocal.metrics.shown import BETTER, UNDEFINED, Better, metric_text

PAIR = ("ece", "auroc")
"""Metrics of the tables with a pair of columns for each case."""

Place = tuple[str, str, str]
"""Where a value stands: the names of its case, of its row, and of its metric."""


def marks(shown: Sequence[str], better: Better | None, kinds: Sequence[Mark] = ("best", "second")) -> list[Mark | None]:
    """Return the marks of one column. They are decided on the rounded numbers as shown, so equal numbers share a mark
    (caption of table 1).

    The second best is the next distinct number, however many share the best.

    Args:
        shown: Printed numbers, or `UNDEFINED`.
        better: The direction of better numbers, or None for a column without marks.
        kinds: Marks that the table uses, best first.
    """
    if better is None:
        return [None] * len(shown)
    numbers = [None if text == UNDEFINED else Decimal(text) for text in shown]
    ranking = sorted({number for number in numbers if number is not None}, reverse=better == "higher")
    by_number: dict[Decimal | None, Mark] = dict(zip(ranking, kinds, strict=False))
    return [by_number.get(number) for number in numbers]


def ranked_cells(
    numbers: pd.DataFrame,
    case: str = "dataset",
    row: str = "method",
    kinds: Sequence[Mark] = ("best", "second"),
    short: Mapping[tuple[str, str], set[str]] | None = None,
    degenerate: Collection[tuple[str, str]] = (),
) -> dict[Place, Cell]:
    """Return the cells of a table whose columns, each a metric of a case, are ranked.

    Args:
        numbers: Table with the columns metric and value, and those that `case` and `row` name.
        case: Column that holds the cases.
        row: Column that holds the rows.
        kinds: Marks that the table uses, best first.
        short: By case and row, the shares of the responses that lie below their floor. Values that rest on these are
            doubtful.
        degenerate: Cases and rows whose confidence is degenerate, which marks the values of its quality.
    """
    cells = {}
    for (name, metric), column in numbers.groupby([case, "metric"], sort=False):
        texts = [metric_text(metric, value) for value in column["value"]]
        for each, text, mark in zip(column[row], texts, marks(texts, BETTER[metric], kinds), strict=True):
            lacking = short[name, each] if short and text != UNDEFINED else set()
            marked = (name, each) in degenerate and metric not in ("accuracy", "mean_confidence") and text != UNDEFINED
            cells[name, each, metric] = Cell(text, mark, not lacking.isdisjoint(RESTS_ON[metric]), marked)
    return cells


def metric_block(
    corner: str,
    cases: Sequence[Labelled],
    metrics: Sequence[str],
    groups: Iterable[tuple[str, Mapping[str, str]]],
    cells: Mapping[Place, Cell],
    *,
    titles: Mapping[str, str] = HEADS,
    highlight: str | None = None,
    **style: Any,
) -> Block:
    """Return a block with a column for each metric of each case.

    Args:
        corner: Title above the row names.
        cases: Data sets or other cases from left to right.
        metrics: Metrics of each case.
        groups: Title of each group of rows, and the labels of its rows by their names.
        cells: The values; there may be more than the block shows.
        titles: Titles of the metrics.
        highlight: Name of the row whose label is bold.
        style: Further fields of the block.
    """
    columns = [(case.name, metric) for case in cases for metric in metrics]
    return Block(
        corner,
        (
            tuple(Head(case.label, len(metrics)) for case in cases),
            tuple(Head(titles[metric]) for _, metric in columns),
        ),
        tuple(
            Group(
                tuple(
                    Row(label, tuple(cells[case, name, metric] for case, metric in columns), bold=name == highlight)
                    for name, label in rows.items()
                ),
                title,
            )
            for title, rows in groups
        ),
        **style,
    )


def method_labels(methods: Iterable[str]) -> dict[str, str]:
    """Return the labels of methods by their names."""
    return {name: METHODS[name].label for name in methods}


def method_groups(methods: Iterable[str]) -> list[tuple[str, dict[str, str]]]:
    """Return methods in the groups of the paper's tables, which have no titles, for `metric_block`."""
    return [("", method_labels(names)) for _, names in groupby(methods, lambda name: METHODS[name].group)]
