"""Errors in the training data of CoCal and PostCal, and their mean confidence (fig:rq4_error_confidence)."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from cocal.companion.spec import CompanionSpec
from cocal.drawing.style import INK, Figure
from cocal_study.config.study import Study
from cocal_study.exhibits import budgets
from cocal_study.exhibits.base.exhibit import CurvesLayout, FigureExhibit, curves
from cocal_study.exhibits.base.inputs import Cube
from cocal_study.exhibits.base.ledger import budget_companions
from cocal_study.exhibits.drawing.curves import entry, panel_row, read_curves
from cocal_study.planning.plan import has_methods
from cocal_study.planning.results import ORDERS

Layout = CurvesLayout
_METHODS = ("cocal-binary", "postcal-binary")
_ORDERS = {"cocal-binary": ORDERS["rollouts"], "postcal-binary": ORDERS["resampled"]}
_ACCURACY = {"linestyle": (0, (1, 2)), "color": INK, "linewidth": 0.9}


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    if has_methods(study, *_METHODS):
        yield FigureExhibit(
            title="Errors in the training data",
            chapter="Analysis",
            position=62,
            caption="The share of incorrect responses in the effective training data of CoCal and PostCal, and "
            "their mean confidence on the final policy's responses, at matched budgets (appendix E.1). The level "
            "line is the accuracy. " + budgets.WHISKERS,
            layout=curves(study, _METHODS, study.reports.budgets, study.policy.steps),
            inputs=budgets.inputs_of(study, "composition", "-budgets") | {"companions": budget_companions(study)},
        )


def prepare(
    layout: Layout,
    metrics: Cube,
    companions: Sequence[CompanionSpec],
    replicates_figure: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Composition of the training responses and macro mean confidence, by budget: the columns of
    `cocal_study.exhibits.drawing.curves.read_curves`, with the metrics accuracy, mean_confidence and
    training_error_share (a share in [0, 1]; the columns of test responses are empty), and those of
    `cocal_study.exhibits.budgets.with_replicates`."""
    shares = {(spec.order, spec.steps): spec.training_error_share for spec in companions}
    tested = read_curves(layout, metrics, ("accuracy", "mean_confidence"))
    trained = tested.loc[tested["metric"] == "accuracy", ["source_step", "method"]]
    values = [shares[_ORDERS[method], budget] for _, budget, method in trained.itertuples()]
    trained = trained.assign(metric="training_error_share", value=values)
    return budgets.with_replicates(pd.concat([tested, trained], ignore_index=True), replicates_figure)


def draw(numbers: pd.DataFrame, layout: Layout) -> Figure:
    by_metric, legend = dict(iter(numbers.groupby("metric"))), budgets.legend_of(numbers, layout)
    figure, (left, right) = panel_row(
        ["Incorrect training responses (%)", "Mean test confidence"],
        height=1.5,
        label="Matched budget (rollout steps)",
        handles=[*legend["handles"], entry("task accuracy", **_ACCURACY)],
        source=legend["source"],
    )
    budgets.plot_means(left, by_metric["training_error_share"], scale=100)
    budgets.plot_means(right, by_metric["mean_confidence"])
    accuracy = by_metric["accuracy"].iloc[0]
    right.axhline(accuracy["mean" if accuracy["replicates"] else "value"], **_ACCURACY, zorder=0)
    return figure
