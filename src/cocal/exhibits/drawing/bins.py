"""Draws accuracy and number of responses by bins of confidence: one reliability diagram above its histogram."""

import numpy as np
import pandas as pd

from cocal.exhibits.drawing.style import INK, Artist, Axes

FEW = 10
"""Bins with fewer responses are drawn pale, because their accuracy is mostly chance: with ten responses its standard
error is up to 0.16."""

_HATCH = "////////"
_GREY, _PALE = "#6a6a6a", "#a9a9a9"
_IDEAL = {"linestyle": (0, (4, 2.5)), "color": INK, "linewidth": 0.7}


def plot_reliability(ax_top: Axes, ax_bottom: Axes, panel: pd.DataFrame, colour: str) -> None:
    """Draw one reliability diagram above its histogram of confidence.

    A bar is the gap of its bin, from the mean confidence to the accuracy, which a cap marks: a calibrated method has
    caps on the diagonal and no bars. The bar hangs below the diagonal and is full where confidence is too high, and
    stands above it and is hatched where confidence is too low. Bins of fewer than `FEW` responses are pale. Empty bins
    stay blank.

    Args:
        panel: Rows of `prepare` for one data set and method.
    """
    from matplotlib.patheffects import withStroke
    from matplotlib.ticker import MaxNLocator

    filled = panel[panel["count"] > 0]
    few, over = filled["count"] < FEW, filled["mean_confidence"] > filled["accuracy"]
    for bins, cap, look in (
        (filled[few & over], _PALE, _full(_paler(colour))),
        (filled[few & ~over], _PALE, _hatched(_paler(colour))),
        (filled[~few & over], INK, _full(colour)),
        (filled[~few & ~over], INK, _hatched(colour)),
    ):
        left, width, start = bins["left"], bins["right"] - bins["left"], bins["mean_confidence"]
        ax_top.bar(left, bins["accuracy"] - start, width, bottom=start, align="edge", linewidth=0.5, **look)
        ax_top.hlines(bins["accuracy"], left, bins["right"], color=cap, linewidth=1.3)
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
        Line2D([], [], color=INK, linewidth=1.3, label="accuracy of a bin"),
        Line2D([], [], **_IDEAL, label="ideal calibration"),
        Patch(**_full(_GREY), label="gap: confidence above accuracy"),
        Patch(**_hatched(_GREY), label="gap: confidence below accuracy"),
        Patch(**_full(_paler(_GREY)), label=f"fewer than {FEW} responses"),
    ]


def _full(colour: str | tuple[float, ...]) -> dict:
    return {"facecolor": colour, "edgecolor": "white"}


def _hatched(colour: str | tuple[float, ...]) -> dict:
    return {"facecolor": "white", "edgecolor": colour, "hatch": _HATCH}


def _paler(colour: str) -> tuple[float, ...]:
    """Mix a quarter of the colour with white."""
    from matplotlib.colors import to_rgb

    return tuple(0.75 + 0.25 * part for part in to_rgb(colour))
