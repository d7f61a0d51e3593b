"""Confidence quality of CoCal and PostCal at matched budgets (fig:rq4_cocal_vs_posthoc)."""

from collections.abc import Iterator, Mapping

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
    """The numbers of `cocal_study.exhibits.drawing.curves.read_curves`, and mean and standard deviation over the
    replicates and how many there are, 0 where the figure's gathered numbers lack the row."""
    numbers = read_curves(layout, metrics, CONFIDENCE_QUALITY)
    if replicates_figure is None:
        return numbers.assign(mean=float("nan"), sd=float("nan"), replicates=0)
    single = replicates_figure.filter(regex=r"^replicate_\d+$")
    gathered = replicates_figure[["source_step", "method", "metric", "mean", "sd"]]
    merged = numbers.merge(gathered.assign(replicates=single.notna().sum(axis=1)), how="left")
    return merged.fillna({"replicates": 0}).astype({"replicates": int})


def draw(numbers: pd.DataFrame, layout: Layout, label: str = "Matched budget (rollout steps)") -> Figure:
    """Draw a panel of the ECE and one of the AUROC.

    Where replicates have all numbers, curves are means over them, with the study's own policy as a faint line.
    """
    handles = method_handles(layout.methods)
    count = numbers["replicates"].min()
    words = f"lines and whiskers: mean and standard deviation of {count} replicates"
    source = f"{macro_source(layout)}; {words if count else SEED_WHISKERS}"
    if count:
        handles.append(entry("this study alone", color=INK, **_FAINT))

    def plot(ax: Axes, panel: pd.DataFrame) -> None:
        over = panel.assign(value=panel["mean"], seed_sd=panel["sd"]) if count else panel
        for method, own in panel.groupby("method") if count else ():
            ax.plot(own["source_step"], own["value"], color=METHODS[method].colour, **_FAINT)
        plot_sweep(ax, over)

    return metric_row(numbers, plot, height=1.5, label=label, handles=handles, source=source)
