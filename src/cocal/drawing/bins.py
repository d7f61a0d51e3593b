"""Drawing of accuracy and number of responses by bins of confidence: a reliability diagram above its histogram."""

from typing import Any

import numpy as np
import pandas as pd

from cocal.drawing.style import INK, Artist, Axes

FEW = 10
"""Bins with fewer responses are drawn pale, since their accuracy is mostly chance: that of ten errs by up to 0.16."""

_GREY, _PALE = "#6a6a6a", "#a9a9a9"
_OVER: dict[str, Any] = {"hatch": "////////"}
_SPARSE = {"facecolor": "none", "edgecolor": _PALE, "linewidth": 0.4, "linestyle": (0, (1.5, 1.5))}
_IDEAL = {"linestyle": (0, (4, 2.5)), "color": INK, "linewidth": 0.7}


def plot_reliability(ax_top: Axes, ax_bottom: Axes, panel: pd.DataFrame, colour: str) -> None:
    """Draw one reliability diagram above its histogram of confidence.

    A bar is the gap of its bin, from the mean confidence to the accuracy, which a cap marks: a calibrated method has
    caps on the diagonal and no bars. The bar is hatched and hangs below the diagonal where confidence is too high,
    and stands above it where confidence is too low. Bins of fewer than `FEW` responses are pale. Empty bins stay blank.

    Args:
        panel: What `cocal.metrics.calibration.reliability_bins` returns.
    """
    from matplotlib.patheffects import withStroke
    from matplotlib.ticker import MaxNLocator

    filled = panel[panel["count"] > 0]
    few, over = filled["count"] < FEW, filled["mean_confidence"] > filled["accuracy"]
    for bins, cap, look in (
        (filled[few], _PALE, _SPARSE),
        (filled[~few & over], INK, _gap(colour) | _OVER),
        (filled[~few & ~over], INK, _gap(colour)),
    ):
        left, width, start = bins["left"], bins["right"] - bins["left"], bins["mean_confidence"]
        ax_top.bar(left, bins["accuracy"] - start, width, bottom=start, align="edge", **look)
        # a cap at zero must show beside the axis
        ax_top.hlines(bins["accuracy"], left, bins["right"], color=cap, linewidth=1.5, clip_on=False, zorder=4)
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
        Line2D([], [], color=INK, linewidth=1.5, label="accuracy of a bin"),
        Line2D([], [], **_IDEAL, label="ideal calibration"),
        Patch(**_gap(_GREY), **_OVER, label="gap: confidence above accuracy"),
        Patch(**_gap(_GREY), label="gap: confidence below accuracy"),
        Patch(**_SPARSE, label=f"fewer than {FEW} responses"),
    ]


def _gap(colour: str) -> dict:
    """A bar in a tint of the colour, within a line of the colour."""
    from matplotlib.colors import to_rgb

    return {"facecolor": tuple(0.75 + 0.25 * part for part in to_rgb(colour)), "edgecolor": colour, "linewidth": 0.5}
