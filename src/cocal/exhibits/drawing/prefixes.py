"""Draws confidence quality against the number of rollout steps that a companion learnt from, for the early steps
(fig:early_step_cocal) and for matched budgets of CoCal and PostCal (fig:rq4_cocal_vs_posthoc)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from cocal.config.methods import METHODS
from cocal.exhibits.base.layouts import CurvesLayout
from cocal.exhibits.drawing.curves import (
    CONFIDENCE_QUALITY,
    TITLES,
    logarithmic,
    method_handles,
    panel_row,
    plot_curves,
)
from cocal.metrics.cells import read_cells
from cocal.metrics.cube import MEAN

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def prepare_prefixes(
    layout: CurvesLayout, cube: "xr.Dataset", metrics: Sequence[str] = CONFIDENCE_QUALITY
) -> pd.DataFrame:
    """Return macro averages of companions that learnt from more and more rollout steps, on one policy's responses.

    Args:
        layout: Backbone, companion methods, the rollout steps that they learnt from, the policy's step and the macro
            average.
        cube: Metric cube of a sweep, with the dimension `source_step`.
        metrics: Metrics shown.

    Returns:
        Columns source_step, method, metric, value (mean over the seeds), lower, upper (bootstrap interval over the
        questions), n, those of `cocal.metrics.quality.RATES`, seed_sd (standard deviation of the macro average
        over the seeds); in the order of the source steps, the methods, then the cube's metrics.

    Raises:
        ContractError: if the cube lacks a method at a source step.
    """
    fixed = {"backbone": layout.backbone, "step": layout.step, "dataset": layout.macro, "seed": MEAN}
    cells = {
        (source_step, method): {
            **fixed,
            "algorithm": METHODS[method].policy,
            "method": method,
            "source_step": source_step,
        }
        for source_step in layout.steps
        for method in layout.methods
    }
    numbers = read_cells(cube, cells, ["source_step", "method"])
    return numbers[numbers["metric"].isin(metrics)].reset_index(drop=True)


def plot_prefixes(ax: "Axes", panel: pd.DataFrame) -> None:
    """Draw one metric against the source step, with whiskers of one standard deviation over the seeds.

    Args:
        panel: Rows of `prepare_prefixes` for one metric.
    """
    ends = panel.assign(low=panel["value"] - panel["seed_sd"], high=panel["value"] + panel["seed_sd"])
    plot_curves(ax, ends, steps="source_step")
    logarithmic(ax, sorted(panel["source_step"].unique()))


def prefixes_figure(numbers: pd.DataFrame, layout: CurvesLayout, label: str) -> "Figure":
    """Draw a panel of the ECE and a panel of the AUROC.

    Args:
        numbers: What `prepare_prefixes` returns.
        layout: What the figure shows.
        label: Label of the horizontal axes.
    """
    figure, panels = panel_row(
        [TITLES[metric] for metric in CONFIDENCE_QUALITY],
        height=1.5,
        label=label,
        handles=method_handles(list(dict.fromkeys(numbers["method"]))),
        source=f"{layout.source}; whiskers: standard deviation over the seeds",
    )
    for ax, metric in zip(panels, CONFIDENCE_QUALITY, strict=True):
        plot_prefixes(ax, numbers[numbers["metric"] == metric])
    return figure
