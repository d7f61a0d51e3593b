"""Rows of panels with curves over training steps: what the figures of macro averages share."""

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

import pandas as pd

from cocal.config.methods import METHODS
from cocal.exhibits.drawing.style import LEGEND, SMALL_PRINT, TEXT_WIDTH

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

TITLES = {
    "accuracy": "Accuracy (%)",
    "mean_confidence": "Mean confidence",
    "ece": "ECE $\\downarrow$",
    "auroc": "AUROC $\\uparrow$",
}
"""Panel titles."""

CONFIDENCE_QUALITY = ("ece", "auroc")
"""Metrics of the figures with two panels."""

_APART = 2.0
"""Points between the markers of two methods at one step: their error bars must not lie on each other."""
_RIGHT, _TOP, _TICKS, _ENTRY, _PRINT = 0.06, 0.22, 0.28, 0.13, 0.1
"""Inches: right margin; height of a title, of tick labels with their axis's label, of a row of the legend, of a line
of small print."""


def plot_curves(ax: "Axes", panel: pd.DataFrame, *, steps: str, scale: float = 1.0) -> None:
    """One curve a method, in the order of the rows.

    Args:
        panel: rows of one metric; columns method, `steps`, value and the ends of the error bars, low and high
            (NaN: none).
        steps: column on the horizontal axis, every value of which gets a tick.
        scale: factor of the values, such as 100 for percent.
    """
    from matplotlib.transforms import ScaledTranslation

    methods = list(dict.fromkeys(panel["method"]))
    for place, method in enumerate(methods):
        curve = panel[panel["method"] == method]
        drawn = ax.errorbar(
            curve[steps],
            scale * curve["value"],
            scale * abs(curve[["low", "high"]].sub(curve["value"], axis=0)).to_numpy().T,
            elinewidth=0.6,
            **_look(method),
        )
        points = _APART * (place - (len(methods) - 1) / 2)
        beside = ax.transData + ScaledTranslation(points / 72, 0, ax.get_figure().dpi_scale_trans)
        for artist in drawn.get_children():  # afterwards: the limits of the axes are those of the data
            artist.set_transform(beside)
    ax.set_xticks(sorted(panel[steps].unique()))
    value_axis(ax, panel)
    ax.margins(x=0.12, y=0.08)


def value_axis(ax: "Axes", panel: pd.DataFrame) -> None:
    """Three ticks or more; none, and a word in the middle, where no value is defined.

    Args:
        panel: rows of one metric; column value.
    """
    from matplotlib.ticker import MaxNLocator

    if panel["value"].isna().all():
        ax.set_yticks([])
        ax.text(0.5, 0.5, "undefined", transform=ax.transAxes, ha="center", va="center", **SMALL_PRINT)
    else:
        ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], min_n_ticks=3))


def logarithmic(ax: "Axes", steps: Sequence[int]) -> None:
    """A logarithmic axis of steps, each of them labelled."""
    from matplotlib.ticker import NullLocator

    ax.set_xscale("log")
    ax.set_xticks(steps, [str(step) for step in steps])
    ax.xaxis.set_minor_locator(NullLocator())
    room = (steps[-1] / steps[0]) ** 0.07 if len(steps) > 1 else 1.5
    ax.set_xlim(steps[0] / room, steps[-1] * room)


def panel_row(
    titles: Sequence[str],
    *,
    height: float | None,
    label: str,
    handles: "Sequence[Artist]",
    source: str,
    width: float = TEXT_WIDTH,
    left: float = 0.34,
    between: float = 0.36,
    columns: int | None = None,
) -> "tuple[Figure, list[Axes]]":
    """Empty panels side by side; below them their label, the legend and the small print.

    All sizes are in inches.

    Args:
        height: of a panel; None for square ones.
        label: of the horizontal axes.
        handles: entries of the legend.
        source: where the numbers come from and what the error bars are, in one or more lines.
        width: of the figure.
        left: room left of the first panel.
        between: room between two panels.
        columns: of the legend; None for all entries in one row.
    """
    from matplotlib.figure import Figure

    panel = (width - left - _RIGHT - (len(titles) - 1) * between) / len(titles)
    height = panel if height is None else height
    columns = columns or len(handles)
    legend = 0.06 + _PRINT * len(source.splitlines())
    labels = legend + 0.05 + _ENTRY * ceil(len(handles) / columns)
    bottom = labels + _TICKS
    total = bottom + height + _TOP
    figure = Figure(figsize=(width, total))
    panels = []
    for place, title in enumerate(titles):
        corner = (left + place * (panel + between)) / width
        ax = figure.add_axes((corner, bottom / total, panel / width, height / total))
        ax.set_title(title, pad=4)
        panels.append(ax)
    figure.text((left + width - _RIGHT) / 2 / width, labels / total, label, ha="center", va="bottom")
    at = (0.5, legend / total)
    figure.legend(handles=list(handles), loc="lower center", bbox_to_anchor=at, ncols=columns, **LEGEND)
    figure.text(0.5, 0.03 / total, source, ha="center", va="bottom", linespacing=1.1, **SMALL_PRINT)
    return figure, panels


def method_handles(methods: Sequence[str]) -> "list[Line2D]":
    """Legend entries of the curves."""
    from matplotlib.lines import Line2D

    return [Line2D([], [], label=METHODS[method].label, **_look(method)) for method in methods]


def _look(name: str) -> dict[str, str | float]:
    """Properties of a method's curve."""
    method = METHODS[name]
    colour = method.colour
    hollow = {"markerfacecolor": "white", "markeredgecolor": colour, "markeredgewidth": 0.8}
    full = {"markeredgecolor": "white", "markeredgewidth": 0.4}
    look = {"color": colour, "marker": method.marker, "linewidth": 1.1, "markersize": 3.4}
    return look | (hollow if method.hollow else full)
