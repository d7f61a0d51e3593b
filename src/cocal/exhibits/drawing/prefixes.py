"""Confidence quality against the rollout steps that a companion learnt from: early steps (fig:early_step_cocal) and
matched budgets of CoCal and PostCal (fig:rq4_cocal_vs_posthoc)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cocal.config.methods import METHODS
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


def prepare_prefixes(
    cube: "xr.Dataset",
    *,
    backbone: str,
    step: int,
    macro: str,
    methods: Sequence[str],
    source_steps: Sequence[int],
    metrics: Sequence[str] = CONFIDENCE_QUALITY,
) -> pd.DataFrame:
    """Macro averages of companions that learnt from more and more rollout steps, on the responses of one policy.

    Args:
        cube: metric cube of a sweep, with the dimension `source_step`.
        step: step of the policy whose responses are scored.
        macro: label of the macro average in the dimension `dataset`.
        methods: companion methods.

    Returns:
        Columns source_step, method, metric, value (mean over the seeds), lower, upper (bootstrap interval over the
        questions), n, those of `cocal.metrics.quality.RATES`, seed_sd (standard deviation of the macro average
        over the seeds); in the order of `source_steps`, `methods`, then the cube's metrics.

    Raises:
        ContractError: if the cube lacks a method at a source step.
    """
    fixed = {"backbone": backbone, "step": step, "dataset": macro, "seed": MEAN}
    cells = {
        (source_step, method): {
            **fixed,
            "algorithm": METHODS[method].policy,
            "method": method,
            "source_step": source_step,
        }
        for source_step in source_steps
        for method in methods
    }
    numbers = read_cells(cube, cells, ["source_step", "method"])
    return numbers[numbers["metric"].isin(metrics)].reset_index(drop=True)


def plot_prefixes(ax: Axes, panel: pd.DataFrame) -> None:
    """One metric against the source step, whiskers of one seed standard deviation.

    Args:
        panel: rows of `prepare_prefixes` of one metric.
    """
    ends = panel.assign(low=panel["value"] - panel["seed_sd"], high=panel["value"] + panel["seed_sd"])
    plot_curves(ax, ends, steps="source_step")
    logarithmic(ax, sorted(panel["source_step"].unique()))


def prefixes_figure(numbers: pd.DataFrame, source: str, label: str) -> Figure:
    """A panel of the ECE and one of the AUROC.

    Args:
        numbers: what `prepare_prefixes` returns.
        source: study, backbone, policy and datasets in a few words.
        label: of the horizontal axes.
    """
    figure, panels = panel_row(
        [TITLES[metric] for metric in CONFIDENCE_QUALITY],
        height=1.5,
        label=label,
        handles=method_handles(list(dict.fromkeys(numbers["method"]))),
        source=f"{source}; whiskers: standard deviation over the seeds",
    )
    for ax, metric in zip(panels, CONFIDENCE_QUALITY, strict=True):
        plot_prefixes(ax, numbers[numbers["metric"] == metric])
    return figure
