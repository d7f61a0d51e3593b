"""What CoCal and PostCal learn from, and how confident it makes them (fig:rq4_error_confidence)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cocal.companion.spec import ORDERS, read_spec
from cocal.config.methods import METHODS
from cocal.errors import ContractError
from cocal.exhibits.drawing.curves import logarithmic, method_handles, panel_row, plot_curves
from cocal.exhibits.drawing.prefixes import plot_prefixes, prepare_prefixes
from cocal.exhibits.drawing.style import INK

if TYPE_CHECKING:
    import xarray as xr

_EXPERIENCE = {ORDERS[experience]: experience for experience in ("rollouts", "resampled")}
_ACCURACY = {"linestyle": (0, (4, 2.5)), "color": INK, "linewidth": 0.7}


class Experience(NamedTuple):
    """Training responses of one fit of companions."""

    kind: str
    """"rollouts" or "resampled"."""
    steps: int
    """Rollout steps, or the matched budget of resampled responses."""

    def __str__(self) -> str:
        return f"{self.kind}, {self.steps} steps"


def read_error_shares(folders: Sequence[str | Path]) -> dict[Experience, float]:
    """Shares of incorrect responses among the training responses, validation and truncated ones left out.

    Args:
        folders: output folders of `cocal companions`; each holds a spec.json.

    Raises:
        ContractError: if a spec is missing or broken, companions learnt from prompts, or two folders hold the same
            experience.
    """
    shares: dict[Experience, float] = {}
    for folder in folders:
        spec = read_spec(folder)
        if "question" in spec.settings.targets:
            raise ContractError(
                f"{folder}: these companions learnt from prompts; give those that learnt from responses"
            )
        experience = Experience(_EXPERIENCE[spec.order], spec.steps)
        if experience in shares:
            raise ContractError(f"{folder}: a second folder of companions of {experience}; give one")
        shares[experience] = spec.training_error_share
    return shares


def prepare_composition(
    cube: "xr.Dataset",
    shares: Mapping[Experience, float],
    *,
    backbone: str,
    step: int,
    macro: str,
    methods: Sequence[str],
    budgets: Sequence[int],
) -> pd.DataFrame:
    """Composition of the training responses and macro mean confidence, by budget.

    Args:
        cube: metric cube of the budgets, with the dimension `source_step`.
        shares: what `read_error_shares` returns.
        step: step of the policy whose responses are scored, the same for all.

    Returns:
        The columns of `prepare_prefixes`, with the metrics accuracy, mean_confidence and, last,
        training_error_share (a share in [0, 1]; the columns of test responses are empty).

    Raises:
        ContractError: if a method lacks a budget in the cube or in `shares`, or the methods' accuracies differ:
            then they did not score the same responses.
    """
    tested = prepare_prefixes(
        cube,
        backbone=backbone,
        step=step,
        macro=macro,
        methods=methods,
        source_steps=budgets,
        metrics=("accuracy", "mean_confidence"),
    )
    accuracies = tested.loc[tested["metric"] == "accuracy", "value"]
    if np.ptp(accuracies) > 1e-9:
        raise ContractError(
            f"metrics: macro accuracy at step {step} lies between {accuracies.min():.4f} and {accuracies.max():.4f}; "
            "all methods and budgets must score the same responses; rerun their predictions"
        )
    trained = []
    for budget in budgets:
        for method in methods:
            experience = Experience(METHODS[method].experience, budget)
            if experience not in shares:
                known = "; ".join(map(str, shares)) or "none"
                raise ContractError(f"companions: none of {method} ({experience}); add their folder (given: {known})")
            trained.append(
                {
                    "source_step": budget,
                    "method": method,
                    "metric": "training_error_share",
                    "value": shares[experience],
                }
            )
    return pd.concat([tested, pd.DataFrame(trained)], ignore_index=True)


def plot_composition(ax: Axes, panel: pd.DataFrame) -> None:
    """Share of incorrect training responses, in percent, against the budget.

    Args:
        panel: rows of `prepare_composition` of the metric training_error_share.
    """
    plot_curves(ax, panel.assign(low=np.nan, high=np.nan), steps="source_step", scale=100)
    logarithmic(ax, sorted(panel["source_step"].unique()))


def plot_mean_confidence(ax: Axes, panel: pd.DataFrame, accuracy: float) -> None:
    """Mean test confidence against the budget, a dashed line at the task accuracy.

    Args:
        panel: rows of `prepare_composition` of the metric mean_confidence.
        accuracy: macro task accuracy, a share.
    """
    plot_prefixes(ax, panel)
    ax.axhline(accuracy, **_ACCURACY, zorder=0)


def composition_figure(numbers: pd.DataFrame, source: str) -> Figure:
    """Both panels.

    Args:
        numbers: what `prepare_composition` returns.
        source: study, backbone, policy and datasets in a few words.
    """
    by_metric = dict(iter(numbers.groupby("metric")))
    handles = [
        *method_handles(list(dict.fromkeys(numbers["method"]))),
        Line2D([], [], **_ACCURACY, label="task accuracy"),
    ]
    figure, (left, right) = panel_row(
        ["Incorrect training responses (%)", "Mean test confidence"],
        height=1.5,
        label="Matched budget (rollout steps)",
        handles=handles,
        source=f"{source}; whiskers: standard deviation over the seeds",
    )
    plot_composition(left, by_metric["training_error_share"])
    plot_mean_confidence(right, by_metric["mean_confidence"], by_metric["accuracy"]["value"].iloc[0])
    return figure
