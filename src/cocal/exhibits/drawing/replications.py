"""Draws the calibration of each method in every replicate of a study, one point a replicate."""

import re

import pandas as pd

from cocal.config.methods import METHODS
from cocal.exhibits.base.types import Figure
from cocal.exhibits.drawing.curves import CONFIDENCE_QUALITY, TITLES
from cocal.exhibits.drawing.style import INK, SMALL_PRINT, TEXT_WIDTH

_LEFT, _RIGHT, _BETWEEN = 1.2, 0.08, 0.3
_ROW, _TOP, _BOTTOM = 0.17, 0.24, 0.36
"""Sizes in inches."""
_SPREAD = 0.3
"""Share of a row over which the points of one method lie, in the order of the replicates."""


def draw(numbers: pd.DataFrame, dataset: str) -> Figure:
    """Draw ECE and AUROC, methods one below another; a line marks the mean over replicates.

    Args:
        numbers: Spread of the main table (`cocal.study.replicates.spread`): the columns dataset, method, metric, mean,
            and replicate_1, replicate_2 ...
        dataset: Data set, or group of them, that is drawn.
    """
    from matplotlib.figure import Figure

    replicates = [name for name in numbers if re.fullmatch(r"replicate_\d+", name)]
    shown = numbers[numbers["dataset"] == dataset].set_index(["metric", "method"])
    methods = list(dict.fromkeys(shown.index.get_level_values("method")))
    height = _TOP + _ROW * len(methods) + _BOTTOM
    width = (TEXT_WIDTH - _LEFT - _RIGHT - _BETWEEN) / 2
    figure = Figure(figsize=(TEXT_WIDTH, height))
    for place, metric in enumerate(CONFIDENCE_QUALITY):
        left = _LEFT + place * (width + _BETWEEN)
        ax = figure.add_axes((left / TEXT_WIDTH, _BOTTOM / height, width / TEXT_WIDTH, _ROW * len(methods) / height))
        ax.set_title(TITLES[metric], pad=4)
        for row, method in enumerate(methods):
            values, colour = shown.loc[(metric, method), replicates].astype(float), METHODS[method].colour
            apart = [_SPREAD * (k / max(len(replicates) - 1, 1) - 0.5) for k in range(len(replicates))]
            ax.scatter(values, [row + a for a in apart], s=9, color=colour, linewidths=0, alpha=0.85, zorder=3)
            ax.plot([shown.loc[(metric, method), "mean"]] * 2, [row - 0.36, row + 0.36], color=INK, linewidth=0.8)
        ax.set_yticks(range(len(methods)), [METHODS[name].label for name in methods] if place == 0 else [])
        ax.set_ylim(len(methods) - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="x", linewidth=0.3, color="#dddddd", zorder=0)
        ax.set_axisbelow(True)
    points = f"One point for each of {len(replicates)} replicates, which differ in the seeds of the policies"
    text = f"{points}; lines are means. Macro average of the mathematical sets."
    figure.text(0.5, 0.04 / height, text, ha="center", va="bottom", **SMALL_PRINT)
    return figure
