"""Confidence quality of CoCal and PostCal at matched budgets (fig:rq4_cocal_vs_posthoc)."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from cocal.drawing.style import INK, Axes, Figure
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.cubes.better import CONFIDENCE_QUALITY
from cocal_study.exhibits.base.exhibit import CurvesLayout, FigureExhibit, curves, macro_source
from cocal_study.exhibits.base.inputs import Cube
from cocal_study.exhibits.drawing.curves import (
    SEED_WHISKERS,
    entry,
    method_handles,
    metric_row,
    plot_sweep,
    read_curves,
)
from cocal_study.planning.plan import has_methods
from cocal_study.planning.results import metrics_file

Layout = CurvesLayout
_METHODS = ("cocal-binary", "postcal-binary")
WHISKERS = (
    "Where replicates of the study have been gathered, lines are means over them, whiskers their standard deviation, "
    "and dashed lines this study alone; without them, whiskers show the standard deviation over companions' seeds."
)
_FAINT = {"linewidth": 0.6, "linestyle": (0, (3, 2)), "alpha": 0.6}
"""The look of one policy beside the mean of several."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    if has_methods(study, *_METHODS):
        yield FigureExhibit(
            title="CoCal and PostCal at matched budgets",
            chapter="Analysis",
            position=61,
            caption="CoCal and PostCal learnt from equal budgets of rollout steps, with binary supervision, and are "
            "compared on the responses of the final policy (appendix E.1). The best pass of each method is chosen "
            "on a fixed pool: its responses of all steps to the held-out questions. " + WHISKERS,
            layout=curves(study, _METHODS, study.reports.budgets, study.policy.steps),
            inputs=inputs_of(study, "budgets", "-budgets"),
        )


def inputs_of(study: Study, name: str, kind: str) -> dict[str, list[str]]:
    """The metrics of a kind, and the figure's gathered numbers, if there are any."""
    folder, own = study.reports.replicates, {"metrics": [metrics_file(study.main_backbone, kind)]}
    return own | ({"replicates_figure": [f"{folder}/figures/{name}.csv"]} if folder else {})


def prepare(layout: Layout, metrics: Cube, replicates_figure: pd.DataFrame | None = None) -> pd.DataFrame:
    """The numbers of `cocal_study.exhibits.drawing.curves.read_curves`, with those of `with_replicates`."""
    return with_replicates(read_curves(layout, metrics, CONFIDENCE_QUALITY), replicates_figure)


def with_replicates(numbers: pd.DataFrame, replicates_figure: pd.DataFrame | None) -> pd.DataFrame:
    """The rows of a figure with mean and standard deviation over the replicates and their number, which is 0 where the
    figure's gathered numbers lack the row."""
    if replicates_figure is None:
        return numbers.assign(mean=float("nan"), sd=float("nan"), replicates=0)
    single = replicates_figure.filter(regex=r"^replicate_\d+$")
    gathered = replicates_figure[["source_step", "method", "metric", "mean", "sd"]]
    merged = numbers.merge(gathered.assign(replicates=single.notna().sum(axis=1)), how="left")
    return merged.fillna({"replicates": 0}).astype({"replicates": int})


def draw(numbers: pd.DataFrame, layout: Layout, label: str = "Matched budget (rollout steps)") -> Figure:
    """Draw a panel of the ECE and one of the AUROC."""
    return metric_row(numbers, plot_means, height=1.5, label=label, **legend_of(numbers, layout))


def legend_of(numbers: pd.DataFrame, layout: Layout) -> dict[str, Any]:
    """The entries of the legend, and what the small print says of the source and of lines and whiskers."""
    count = numbers["replicates"].min()
    words = f"lines and whiskers: mean and standard deviation of {count} replicates" if count else SEED_WHISKERS
    alone = [entry("this study alone", color=INK, **_FAINT)] if count else []
    return {"handles": [*method_handles(layout.methods), *alone], "source": f"{macro_source(layout)}; {words}"}


def plot_means(ax: Axes, panel: pd.DataFrame, scale: float = 1.0) -> None:
    """Draw the rows of one metric, times `scale`. Where replicates have all of them, curves are means over the
    replicates, with the study's own policy as a faint line."""
    if panel["replicates"].min():
        for method, own in panel.groupby("method"):
            ax.plot(own["source_step"], scale * own["value"], color=METHODS[method].colour, **_FAINT)
        panel = panel.assign(value=panel["mean"], seed_sd=panel["sd"])
    plot_sweep(ax, panel, scale)
