"""Tables of ECE and AUROC, with a row for each variant and a pair of columns for each case."""

from collections.abc import Mapping, Sequence

import pandas as pd

from cocal.exhibits.base.layouts import Labelled
from cocal.exhibits.typesetting.grid import Block, Cell, Group, Head, Row
from cocal.exhibits.typesetting.numbers import HEADS
from cocal.exhibits.typesetting.rank import Mark, marks
from cocal.metrics.shown import BETTER, metric_text

METRICS = ("ece", "auroc")


def only_pairs(numbers: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `numbers` (see `cocal.metrics.cells.read_cell`) whose metric is the ECE or the AUROC."""
    return numbers[numbers["metric"].isin(METRICS)].reset_index(drop=True)


def pairs_block(
    numbers: pd.DataFrame,
    *,
    corner: str,
    cases: tuple[str, Sequence[Labelled]],
    variants: tuple[str, Mapping[str, str]],
    kinds: Sequence[Mark] = (),
) -> Block:
    """Return the only block of such a table.

    Args:
        numbers: Table with the columns metric and value, and those that `cases` and `variants` name.
        corner: Title above the row names.
        cases: Column of `numbers` that holds the cases, and the cases from left to right.
        variants: Column of `numbers` that holds the variants, and the printed name of each variant.
        kinds: Marks that the table uses, best first; by default it has none.
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
