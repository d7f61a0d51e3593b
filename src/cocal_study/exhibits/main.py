"""The main table: accuracy, mean confidence, ECE and AUROC of every method (table 1).

Beyond the paper, its page and its CSV say which values are separable from the best of their column.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pandas as pd

from cocal.metrics.shown import UNDEFINED
from cocal_study.config.study import Study
from cocal_study.cubes.resamples import Resamples
from cocal_study.evidence.comparisons import COMPARED, separable_from_best
from cocal_study.exhibits.base.exhibit import TableExhibit
from cocal_study.exhibits.base.inputs import Cube
from cocal_study.exhibits.typesetting import accuracy
from cocal_study.exhibits.typesetting.accuracy import CAPTION, AccuracyLayout, accuracy_layout, main_methods
from cocal_study.exhibits.typesetting.grid import Cell, Grid, method_labels, metric_block
from cocal_study.planning.results import metrics_file, resamples_file

Layout = AccuracyLayout


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table of the main backbone at the end of training, where the study has a method that it shows."""
    if main_methods(study):
        yield TableExhibit(
            title=f"Main table, step {study.policy.steps}",
            chapter="Main results",
            position=10,
            caption="Accuracy, mean confidence, expected calibration error and AUROC of the methods on the "
            f"mathematical sets (the paper's table 1). {CAPTION} Page and CSV also say which values are separable from "
            "the best of their column (paired bootstrap over questions, 5 % after adjustment for the column).",
            layout=accuracy_layout(study, wrong, highlight="cocal-binary"),
            inputs={"metrics": metrics_file(study.main_backbone), "resamples": resamples_file(study.main_backbone)},
        )


def prepare(layout: AccuracyLayout, metrics: Cube, resamples: Resamples | None = None) -> pd.DataFrame:
    """Return the numbers of the table, and with the resamples one column more.

    Args:
        resamples: Metrics of every resample of the questions, if it is to say what is separable.

    Returns:
        The columns of `cocal_study.exhibits.typesetting.accuracy.prepare`, and with resamples separable_from_best:
        "best", "yes" or "no"; "" for mean confidence, which is neither good nor bad, and for undefined values.

    Raises:
        ContractError: if a method lacks a data set.
    """
    numbers = accuracy.prepare(layout, metrics)
    if resamples is None:
        return numbers
    found = separable_from_best(resamples, numbers, layout.step)
    keys = zip(numbers["dataset"], numbers["method"], numbers["metric"], strict=True)
    return numbers.assign(separable_from_best=[found.get(key, "") for key in keys])


def grid(numbers: pd.DataFrame, layout: AccuracyLayout, *, metrics: Cube, resamples: Resamples | None = None) -> Grid:
    """Set the table as the paper does; its page also says what is separable from the best."""
    made = accuracy.grid(numbers, layout, metrics=metrics)
    if resamples is None:
        return made
    said = numbers.set_index(["dataset", "method", "metric"])["separable_from_best"]
    cells = {place: Cell(word or UNDEFINED) for place, word in said.items()}
    groups = [("", method_labels(layout.methods))]
    block = metric_block("Separable from the best", layout.page_columns, COMPARED, groups, cells)
    return replace(made, details=(block, *made.details))
