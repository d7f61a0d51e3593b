"""Rows of panels with curves over training steps: what training_dynamics, early_steps, budgets, composition share."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from cocal.estimators.registry import METHODS
from cocal.figures.style import METHOD_COLOURS, METHOD_MARKERS, TEXT_WIDTH

TITLES = {
    "accuracy": "Accuracy (%)",
    "mean_confidence": "Mean confidence",
    "ece": "ECE $\\downarrow$",
    "auroc": "AUROC $\\uparrow$",
}
"""Panel titles."""

_LINE = {"linewidth": 1.1, "markersize": 3.4, "markeredgecolor": "white", "markeredgewidth": 0.4}
_APART = 2.0
"""Points between the markers of two methods at one step: their error bars must not lie on each other."""
_LEFT, _RIGHT, _TOP, _BOTTOM, _BETWEEN = 0.34, 0.06, 0.22, 0.66, 0.36
"""Margins and the room for tick labels between panels, in inches."""


def plot_curves(ax: Axes, panel: pd.DataFrame, *, steps: str, scale: float = 1.0) -> None:
    """One curve a method, in the order of the rows.

    Args:
        panel: rows of one metric; columns method, `steps`, value and the ends of the error bars, low and high
            (NaN: none).
        steps: column on the horizontal axis, every value of which gets a tick.
        scale: factor of the values, such as 100 for percent.
    """
    methods = list(dict.fromkeys(panel["method"]))
    for place, method in enumerate(methods):
        curve = panel[panel["method"] == method]
        drawn = ax.errorbar(
            curve[steps],
            scale * curve["value"],
            scale * abs(curve[["low", "high"]].sub(curve["value"], axis=0)).to_numpy().T,
            color=METHOD_COLOURS[method],
            marker=METHOD_MARKERS[method],
            elinewidth=0.6,
            **_LINE,
        )
        points = _APART * (place - (len(methods) - 1) / 2)
        beside = ax.transData + ScaledTranslation(points / 72, 0, ax.get_figure().dpi_scale_trans)
        for artist in drawn.get_children():  # afterwards: the limits of the axes are those of the data
            artist.set_transform(beside)
    ax.set_xticks(sorted(panel[steps].unique()))
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    ax.margins(x=0.12, y=0.08)


def logarithmic(ax: Axes, steps: Sequence[int]) -> None:
    """A logarithmic axis of steps, each of them labelled."""
    ax.set_xscale("log")
    ax.set_xticks(steps, [str(step) for step in steps])
    ax.xaxis.set_minor_locator(NullLocator())
    room = (steps[-1] / steps[0]) ** 0.07 if len(steps) > 1 else 1.5
    ax.set_xlim(steps[0] / room, steps[-1] * room)


def panel_row(titles: Sequence[str], *, height: float, label: str) -> tuple[Figure, list[Axes]]:
    """Empty panels side by side.

    Args:
        height: of a panel, in inches.
        label: of the horizontal axes.
    """
    total = _TOP + height + _BOTTOM
    figure = Figure(figsize=(TEXT_WIDTH, total))
    width = (TEXT_WIDTH - _LEFT - _RIGHT - (len(titles) - 1) * _BETWEEN) / len(titles)
    panels = []
    for place, title in enumerate(titles):
        left = (_LEFT + place * (width + _BETWEEN)) / TEXT_WIDTH
        ax = figure.add_axes((left, _BOTTOM / total, width / TEXT_WIDTH, height / total))
        ax.set_title(title, pad=4)
        panels.append(ax)
    figure.text(0.5, (_BOTTOM - 0.32) / total, label, ha="center", va="bottom")
    return figure, panels


def caption_below(figure: Figure, handles: Sequence[Artist], source: str) -> None:
    """The legend and, below it, small: where the numbers come from and what the error bars are."""
    height = figure.get_figheight()
    figure.legend(
        handles=list(handles),
        loc="lower center",
        bbox_to_anchor=(0.5, 0.16 / height),
        ncols=len(handles),
        borderaxespad=0,
        borderpad=0,
        handlelength=1.8,
        handletextpad=0.5,
        columnspacing=1.4,
    )
    figure.text(0.5, 0.03 / height, source, ha="center", va="bottom", fontsize=6.5, color="#666666")


def method_handles(methods: Sequence[str]) -> list[Line2D]:
    """Legend entries of the curves."""
    return [
        Line2D([], [], color=METHOD_COLOURS[m], marker=METHOD_MARKERS[m], label=METHODS[m].label, **_LINE)
        for m in methods
    ]
