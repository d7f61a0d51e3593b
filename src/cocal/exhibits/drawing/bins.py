"""Draws accuracy and number of responses by bins of confidence: one reliability diagram above its histogram."""

import numpy as np
import pandas as pd

from cocal.exhibits.drawing.style import INK, Artist, Axes

FEW = 10
"""Bins with fewer responses are drawn pale, because their accuracy is mostly chance: with ten responses its standard
error is up to 0.16."""

_OVER = {"facecolor": "white", "edgecolor": INK, "hatch": "////////", "linewidth": 0.4}
_UNDER = {"facecolor": (1.0, 1.0, 1.0, 0.72), "edgecolor": INK, "hatch": "--------", "linewidth": 0.4}
_PALE = "#a9a9a9"
_PALE_GAP = {"facecolor": "none", "edgecolor": _PALE, "linewidth": 0.4, "linestyle": (0, (1.5, 1.5))}
_IDEAL = {"linestyle": (0, (4, 2.5)), "color": INK, "linewidth": 0.7}


def plot_reliability(ax_top: Axes, ax_bottom: Axes, panel: pd.DataFrame, colour: str) -> None:
    """Draw one reliability diagram above its histogram of confidence.

    A bar reaches to the accuracy of its bin, which a cap marks. The gap between the accuracy and the bin's mean
    confidence is hatched above the bar where confidence is too high, and barred within it where it is too low. Bins
    of fewer than `FEW` responses are pale, and so are their gaps. Empty bins stay blank.

    Args:
        panel: Rows of `prepare` for one data set and method.
    """
    from matplotlib.patheffects import withStroke
    from matplotlib.ticker import MaxNLocator

    filled = panel[panel["count"] > 0]
    few, over = filled["count"] < FEW, filled["mean_confidence"] > filled["accuracy"]
    for bins, face, cap, gap in (
        (filled[few], _paler(colour), _PALE, _PALE_GAP),
        (filled[~few & over], colour, INK, _OVER),
        (filled[~few & ~over], colour, INK, _UNDER),
    ):
        left, width = bins["left"], bins["right"] - bins["left"]
        low = bins[["accuracy", "mean_confidence"]].min(axis=1)
        high = bins[["accuracy", "mean_confidence"]].max(axis=1)
        ax_top.bar(left, bins["accuracy"], width, align="edge", color=face, edgecolor="white", linewidth=0.4)
        ax_top.bar(left, high - low, width, bottom=low, align="edge", **gap)
        ax_top.hlines(bins["accuracy"], left, bins["right"], color=cap, linewidth=1.1)
    halo = [withStroke(linewidth=1.7, foreground="white")]  # the diagonal must show on dark bars
    ax_top.plot([0, 1], [0, 1], **_IDEAL, zorder=3, path_effects=halo)
    ax_top.set(xlim=(0, 1), ylim=(0, 1.02), xticks=[0, 0.5, 1])
    ax_top.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax_top.set_yticks(np.arange(0.25, 1, 0.5), minor=True)
    ax_top.tick_params(labelbottom=False)

    left, width = filled["left"], filled["right"] - filled["left"]
    ax_bottom.bar(left, filled["count"], width, align="edge", color=colour, edgecolor="white", linewidth=0.4)
    ax_bottom.set(xlim=(0, 1))
    ax_bottom.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax_bottom.yaxis.set_major_locator(MaxNLocator(2, integer=True))


def legend_entries() -> list[Artist]:
    """The entries of a legend that explains the marks of `plot_reliability`."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return [
        Patch(facecolor="#8a8a8a", edgecolor="white", label="accuracy"),
        Line2D([], [], **_IDEAL, label="ideal calibration"),
        Patch(**_OVER, label="confidence above accuracy"),
        Patch(**(_UNDER | {"facecolor": "#d6d6d6"}), label="confidence below accuracy"),
        Patch(facecolor=_paler("#8a8a8a"), edgecolor=_PALE, linewidth=0.4, label=f"fewer than {FEW} responses"),
    ]


def _paler(colour: str) -> tuple[float, ...]:
    """Mix a quarter of the colour with white."""
    from matplotlib.colors import to_rgb

    return tuple(0.75 + 0.25 * part for part in to_rgb(colour))
