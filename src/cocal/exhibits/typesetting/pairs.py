"""Tables of ECE and AUROC: rows of variants, a pair of columns for each of several cases."""

from collections.abc import Mapping, Sequence

import pandas as pd

from cocal.exhibits.base.layouts import Labelled
from cocal.exhibits.typesetting.grid import Block, Cell, Group, Head, Row
from cocal.exhibits.typesetting.numbers import HEADS
from cocal.exhibits.typesetting.rank import Mark, marks
from cocal.metrics.shown import BETTER, metric_text

METRICS = ("ece", "auroc")


def only_pairs(numbers: pd.DataFrame) -> pd.DataFrame:
    """The rows of `numbers` (columns of `cocal.metrics.cells.read_cell`) whose metric these tables show."""
    return numbers[numbers["metric"].isin(METRICS)].reset_index(drop=True)


def pairs_block(
    numbers: pd.DataFrame,
    *,
    corner: str,
    cases: tuple[str, Sequence[Labelled]],
    variants: tuple[str, Mapping[str, str]],
    kinds: Sequence[Mark] = (),
) -> Block:
    """The table's only block.

    Args:
        numbers: columns metric, value, and those that `cases` and `variants` name.
        corner: title of the row names.
        cases: column of `numbers`, and the pairs of columns from left to right.
        variants: column of `numbers`, and the rows: value in that column -> name in print.
        kinds: marks, best first; none by default.
    """
    (case_column, shown_cases), (variant_column, labels) = cases, variants
    values = numbers.set_index([case_column, variant_column, "metric"])["value"]
    columns = []
    for case in shown_cases:
        for metric in METRICS:
            texts = [metric_text(metric, values[case.name, variant, metric]) for variant in labels]
            columns.append([Cell(*both) for both in zip(texts, marks(texts, BETTER[metric], kinds), strict=True)])
    rows = (Row(label, cells) for label, cells in zip(labels.values(), zip(*columns, strict=True), strict=True))
    return Block(
        corner=corner,
        heads=(
            tuple(Head(case.label, len(METRICS)) for case in shown_cases),
            tuple(Head(HEADS[metric]) for _ in shown_cases for metric in METRICS),
        ),
        groups=(Group(tuple(rows)),),
    )
