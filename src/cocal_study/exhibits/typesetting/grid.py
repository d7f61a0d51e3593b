"""A table as plain text with its arrangement and marks, before it becomes LaTeX or a web page, and its usual blocks."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Any, Literal

import pandas as pd

from cocal.metrics.shown import UNDEFINED, metric_text
from cocal_study.config.evaluation import QualitySettings
from cocal_study.config.methods import METHODS
from cocal_study.cubes.better import BETTER, HEADS, Better
from cocal_study.cubes.cells import RATES, RESTS_ON, shortfalls
from cocal_study.exhibits.base.exhibit import Labelled
from cocal_study.exhibits.typesetting.wording import DOUBTFUL

Mark = Literal["best", "second"]
Place = tuple[str, str, str]
"""Where a value stands: the names of its case, of its row, and of its metric."""
_RATES = {
    "valid_rate": "Valid",
    "answered_rate": "Answered",
    "decided_rate": "Decided",
    "truncation_rate": "Truncated",
    "p_true_mass": "P(True or False)",
    "exact_match_accuracy": "Exact match",
}
_DOUBTS = {
    "valid_rate": "less than {:g} % of the responses have a valid confidence",
    "answered_rate": "less than {:g} % of the responses have an answer",
    "decided_rate": "less than {:g} % of the responses have a verdict",
    "p_true_mass": "the two words of P(True) have less than {:g} % of the probability on average",
}


@dataclass(frozen=True)
class Cell:
    """One printed value. A doubtful one carries a dagger, and one of a degenerate confidence a double dagger."""

    text: str
    mark: Mark | None = None
    doubtful: bool = False
    degenerate: bool = False


Line = tuple[str | Cell, Sequence[str | Cell]]
"""The name of a row, and its values."""


@dataclass(frozen=True)
class Block:
    """Rows and columns under one head."""

    corner: str
    """Title above the row names."""
    heads: Sequence[Sequence[str]]
    """Rows of titles, in each a title for every column; equal neighbours below one title are printed as one."""
    groups: Sequence[tuple[str, Sequence[Line]]]
    """Rows between two rules, below their title, which may be ""."""
    align: Literal["c", "r", "l"] = "c"
    """Alignment of the values; a web page breaks values that are flush left."""
    width: float | None = None
    """Share of the text width to which print scales the block; None keeps its natural width."""
    names: float | None = None
    """Share of the text width that print gives to the row names, breaking longer ones; None gives what they need."""

    def spans(self) -> list[list[tuple[str, int]]]:
        """The titles in each row of heads, with the number of columns that each stands above."""
        rows = (groupby(zip(*self.heads[: row + 1], strict=True)) for row in range(len(self.heads)))
        return [[(titles[-1], sum(1 for _ in same)) for titles, same in row] for row in rows]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table with its title, which a web page shows above the caption."""

    title: str
    caption: str
    blocks: tuple[Block, ...]
    page_blocks: tuple[Block, ...] = ()
    """Blocks of the web page, if it shows them in another order."""
    gap: str = "6pt"
    """Half the space between two columns in print."""
    size: Literal["normalsize", "footnotesize"] = "normalsize"
    """Font size in print; the caption keeps its own."""
    apart: bool = False
    """True if print gives each block its own float, for a table that is longer than a page."""
    details: tuple[Block, ...] = ()
    """Further blocks that only the web page shows."""
    label: str = ""
    """Label for cross-references, after `tab:`, once the file is known."""
    source: str = ""
    """Text that identifies the numbers by the study and by digests, once they are known."""


def cell_of(value: str | Cell) -> Cell:
    """Return a value of a line as a cell."""
    return value if isinstance(value, Cell) else Cell(value)


def marks(shown: Sequence[str], better: Better | None, kinds: Sequence[Mark] = ("best", "second")) -> list[Mark | None]:
    """Return the marks of one column of printed numbers, decided on these rounded ones (caption of table 1): equal
    numbers share a mark, and the second best is the next distinct number. A column without a better direction has none;
    `kinds` are the marks that the table uses, best first."""
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
        numbers: Table with the columns metric and value, and those of the cases and rows, which `case` and `row` name.
        short: By case and row, the shares of the responses below their floor, which make values doubtful.
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
    groups: Sequence[tuple[str, Mapping[str, str]]],
    cells: Mapping[Place, str | Cell],
    *,
    titles: Mapping[str, str] = HEADS,
    highlight: str | None = None,
    optional: Collection[str] = (),
    **style: Any,
) -> Block:
    """Return a block with a column for each metric of each case.

    Args:
        groups: Title of each group of rows, and the labels of its rows by their names.
        cells: The values; there may be more than the block shows.
        titles: Titles of the metrics.
        highlight: Name of the row whose label is bold.
        optional: Metrics that are left out of cases in which no row has a value.
        style: Further fields of the block.
    """
    names = [name for _, rows in groups for name in rows]
    columns = [
        (case.name, metric)
        for case in cases
        for metric in metrics
        if metric not in optional or any(cell_of(cells[case.name, name, metric]).text != UNDEFINED for name in names)
    ]
    labels = {case.name: case.label for case in cases}

    def line(name: str, label: str) -> Line:
        values = [cells[case, name, metric] for case, metric in columns]
        return Cell(label, "best" if name == highlight else None), values

    heads = [labels[case] for case, _ in columns], [titles[metric] for _, metric in columns]
    return Block(corner, heads, [(title, [line(*row) for row in rows.items()]) for title, rows in groups], **style)


def method_labels(methods: Iterable[str]) -> dict[str, str]:
    """Return the labels of methods by their names."""
    return {name: METHODS[name].label for name in methods}


def method_groups(methods: Iterable[str]) -> list[tuple[str, dict[str, str]]]:
    """Return methods in the groups of the paper's tables, which have no titles, for `metric_block`."""
    return [("", method_labels(names)) for _, names in groupby(methods, lambda name: METHODS[name].group)]


def _by_cell(numbers: pd.DataFrame) -> pd.DataFrame:
    return numbers.drop_duplicates(["dataset", "method"]).set_index(["dataset", "method"])[list(RATES)]


def short_rates(
    numbers: pd.DataFrame, floors: QualitySettings, groups: Mapping[str, Collection[str]]
) -> dict[tuple[str, str], set[str]]:
    """Return the names of the shares (columns `RATES`) below their floor by data set and method; a macro average has
    those of all of its sets."""
    short = {key: set(shortfalls(rates, floors)) for key, rates in _by_cell(numbers).iterrows()}
    for macro, datasets in groups.items():
        for method in numbers["method"].unique():
            short[macro, method] = set().union(*(short[name, method] for name in datasets))
    return short


def doubts(short: Mapping[tuple[str, str], set[str]], floors: QualitySettings) -> str:
    """Return the sentence that explains the mark of doubtful values; "" if no share in `short` lies below its floor."""
    names = set().union(*short.values())
    parts = [text.format(100 * getattr(floors, name)) for name, text in _DOUBTS.items() if name in names]
    return f"{DOUBTFUL} marks values for which {', or '.join(parts)}." if parts else ""


def rate_block(datasets: Sequence[Labelled], numbers: pd.DataFrame, methods: Sequence[str]) -> Block:
    """Return a block with the shares of the responses (columns `RATES`) behind the values, in percent; shares that
    apply to no method are left out."""
    rates = _by_cell(numbers)
    known = [name for name in _RATES if rates[name].notna().any()]
    cells = {(*key, name): metric_text("accuracy", row[name]) for key, row in rates.iterrows() for name in known}
    return metric_block("% of responses", datasets, known, [("", method_labels(methods))], cells, titles=_RATES)
