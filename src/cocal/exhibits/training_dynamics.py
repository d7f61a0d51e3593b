"""Accuracy, confidence, calibration and discrimination over the stages of training (fig:training_dynamics)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cocal.exhibits.drawing.curves import TITLES, method_handles, panel_row, plot_curves
from cocal.metrics.calibration import METRICS
from cocal.metrics.cells import policy_cell, read_cells
from cocal.metrics.cube import MEAN

if TYPE_CHECKING:
    import xarray as xr


def prepare_training_dynamics(
    cube: "xr.Dataset",
    *,
    backbone: str,
    macro: str,
    methods: Sequence[str],
    stages: Sequence[int],
    metrics: Sequence[str] = METRICS,
) -> pd.DataFrame:
    """Macro averages at every stage; companions are averaged over their seeds.

    Args:
        cube: metric cube of the main cells: a companion of stage t learnt from the rollouts up to t.
        macro: label of the macro average in the dimension `dataset`.

    Returns:
        Columns step, method, metric, value, lower, upper (bootstrap interval over the questions), n, those of
        `cocal.metrics.quality.RATES`, seed_sd; in the order of `stages`, `methods`, then the cube's metrics.

    Raises:
        ContractError: if the cube lacks a method at a stage.
    """
    cells = {}
    for stage in stages:
        for method in methods:
            algorithm, step = policy_cell(method, stage)
            cell = {"backbone": backbone, "algorithm": algorithm, "step": step, "dataset": macro}
            cells[stage, method] = {**cell, "method": method, "seed": MEAN}
    numbers = read_cells(cube, cells, ["step", "method"])
    return numbers[numbers["metric"].isin(metrics)].reset_index(drop=True)


def plot_training_dynamics(ax: Axes, panel: pd.DataFrame) -> None:
    """One metric over the stages, whiskers for its interval.

    The methods stand a little beside each other, so that CoCal's variants, which share the task accuracy, both show.

    Args:
        panel: rows of `prepare_training_dynamics` of one metric.
    """
    scale = 100.0 if panel["metric"].iloc[0] == "accuracy" else 1.0
    plot_curves(ax, panel.rename(columns={"lower": "low", "upper": "high"}), steps="step", scale=scale)


def training_dynamics_figure(numbers: pd.DataFrame, source: str) -> Figure:
    """Four panels.

    Args:
        numbers: what `prepare_training_dynamics` returns.
        source: study, backbone and datasets in a few words.
    """
    figure, panels = panel_row(
        [TITLES[metric] for metric in METRICS],
        height=1.25,
        label="Training step",
        handles=method_handles(list(dict.fromkeys(numbers["method"]))),
        source=f"{source}; whiskers: bootstrap interval over the questions",
    )
    for ax, metric in zip(panels, METRICS, strict=True):
        plot_training_dynamics(ax, numbers[numbers["metric"] == metric])
    return figure
