"""The main table: accuracy, mean confidence, ECE and AUROC of every method (table 1).

Beyond the paper, its page and its CSV say which values are separable from the best of their column, and its page says
where this run lies among replicates of the study.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pandas as pd

from cocal.metrics.calibration import METRICS
from cocal.metrics.shown import UNDEFINED, metric_text
from cocal_study.config.study import Study
from cocal_study.cubes.resamples import Resamples
from cocal_study.evidence.comparisons import COMPARED, separable_from_best
from cocal_study.exhibits.base.exhibit import TableExhibit
from cocal_study.exhibits.base.inputs import Cube
from cocal_study.exhibits.typesetting import accuracy
from cocal_study.exhibits.typesetting.accuracy import CAPTION, AccuracyLayout, accuracy_layout, main_methods
from cocal_study.exhibits.typesetting.grid import Cell, Grid, Place, method_labels, metric_block
from cocal_study.planning.results import metrics_file, resamples_file

Layout = AccuracyLayout
_PLACE = "dataset", "method", "metric"
"""What tells the values apart."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table of the main backbone at the end of training, where the study has a method that it shows."""
    if main_methods(study):
        inputs = {"metrics": metrics_file(study.main_backbone), "resamples": resamples_file(study.main_backbone)}
        if study.reports.replicates:
            inputs["replicates_main"] = f"{study.reports.replicates}/tables/main.csv"
        yield TableExhibit(
            title=f"Main table, step {study.policy.steps}",
            chapter="Main results",
            position=10,
            caption="Accuracy, mean confidence, expected calibration error and AUROC of the methods on the "
            f"mathematical sets (the paper's table 1). {CAPTION} Page and CSV also say which values are separable from "
            "the best of their column (paired bootstrap over questions, 5 % after adjustment for the column), and the "
            "page where this run lies among replicates with other seeds, if there are some.",
            layout=accuracy_layout(study, wrong, highlight="cocal-binary"),
            inputs=inputs,
        )


def prepare(
    layout: AccuracyLayout,
    metrics: Cube,
    resamples: Resamples | None = None,
    replicates_main: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return the numbers of the table, and with the resamples one column more.

    Args:
        resamples: Metrics of every resample of the questions, if it is to say what is separable.
        replicates_main: What `cocal spread` has gathered of tables/main.csv, which the page alone shows.

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


def grid(
    numbers: pd.DataFrame,
    layout: AccuracyLayout,
    *,
    metrics: Cube,
    resamples: Resamples | None = None,
    replicates_main: pd.DataFrame | None = None,
) -> Grid:
    """Set the table as the paper does; its page also says what is separable from the best, and where this run lies
    among the replicates."""
    made = accuracy.grid(numbers, layout, metrics=metrics)
    groups, details = [("", method_labels(layout.methods))], made.details
    if replicates_main is not None:
        cells = _among(numbers, replicates_main)
        details = metric_block("Replicates", layout.page_columns[:1], METRICS, groups, cells), *details
    if resamples is not None:
        said = numbers.set_index([*_PLACE])["separable_from_best"]
        cells = {place: Cell(word or UNDEFINED) for place, word in said.items()}
        details = metric_block("Separable from the best", layout.page_columns, COMPARED, groups, cells), *details
    return replace(made, details=details)


def _among(numbers: pd.DataFrame, replicates: pd.DataFrame) -> dict[Place, Cell]:
    """The range of every value over the replicates, and how many of them are below this run's."""
    values = replicates.set_index([*_PLACE]).filter(regex=r"^replicate_\d+$")
    cells = {}
    for row in numbers.itertuples():
        place = row.dataset, row.method, row.metric
        ones = values.loc[place].dropna() if place in values.index else values.iloc[0][:0]
        least, greatest = (metric_text(row.metric, one) for one in (ones.min(), ones.max()))
        told = f"{least} to {greatest}; {(ones < row.value).sum()} of {len(ones)} below" if len(ones) else UNDEFINED
        cells[place] = Cell(told)
    return cells
