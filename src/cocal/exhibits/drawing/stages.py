"""Draws macro averages over the stages of training, for figures/training_dynamics and figures/cross_policy."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from cocal.exhibits.base.layouts import CurvesLayout
from cocal.exhibits.drawing.curves import plot_curves
from cocal.metrics.cells import policy_cell, read_cells
from cocal.metrics.cube import MEAN

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes


def prepare_stages(layout: CurvesLayout, cube: "xr.Dataset", metrics: Sequence[str]) -> pd.DataFrame:
    """Return the macro averages at every stage; companions are averaged over their seeds.

    Args:
        layout: Backbone, methods, stages and the macro average.
        cube: Metric cube of the main cells: a companion of stage t learnt from the rollouts up to t.
        metrics: Metrics shown.

    Returns:
        Columns step, method, metric, value, lower, upper (bootstrap interval over the questions), n, those of
        `cocal.metrics.quality.RATES`, seed_sd; in the order of the stages, the methods, then the cube's metrics.

    Raises:
        ContractError: if the cube lacks a method at a stage.
    """
    cells = {}
    for stage in layout.steps:
        for method in layout.methods:
            algorithm, step = policy_cell(method, stage)
            cell = {"backbone": layout.backbone, "algorithm": algorithm, "step": step, "dataset": layout.macro}
            cells[stage, method] = {**cell, "method": method, "seed": MEAN}
    numbers = read_cells(cube, cells, ["step", "method"])
    return numbers[numbers["metric"].isin(metrics)].reset_index(drop=True)


def plot_stages(ax: "Axes", panel: pd.DataFrame) -> None:
    """Draw one metric over the stages, with its interval as whiskers.

    Methods are shifted a little, so that both variants of CoCal show, although they share the task accuracy.

    Args:
        panel: Rows of `prepare_stages` for one metric.
    """
    scale = 100.0 if panel["metric"].iloc[0] == "accuracy" else 1.0
    plot_curves(ax, panel.rename(columns={"lower": "low", "upper": "high"}), steps="step", scale=scale)
