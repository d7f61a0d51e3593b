"""One look for all figures: print size, fonts, colours, and files that are equal when the data are."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cocal.store import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEXT_WIDTH = 5.5
"""Width of the text in inches; figures are drawn at the size they are printed in."""

HALF_WIDTH = 0.48 * TEXT_WIDTH
"""Width in inches of a figure that another one stands beside."""

PAGE_HEIGHT = 8.6
"""Greatest height of a figure in inches; it leaves room for a caption on a page of 9 inches of text."""

INK = "#262626"
"""Axes, text and hatching."""

BACKBONE_COLOURS = ("#5b3a1e", "#b98b4e")
"""Of the first and the second backbone where they are compared: brown, which no method is; dark and light in
greyscale."""

SMALL_PRINT = {"fontsize": 6.5, "color": "#666666"}
"""Text below a figure: where its numbers come from."""

LEGEND = {"borderaxespad": 0, "borderpad": 0, "handlelength": 1.8, "handletextpad": 0.5, "columnspacing": 1.4}
"""Spacing of a legend below a figure."""

_RC = {
    # Matplotlib brings these fonts along: the same glyphs on every machine.
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "xtick.major.size": 2,
    "ytick.major.size": 2,
    "xtick.major.pad": 2,
    "ytick.major.pad": 2,
    "axes.labelpad": 2,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # TrueType: text stays text
    "figure.dpi": 300,
    "savefig.dpi": 300,
}


@contextmanager
def paper_style() -> Iterator[None]:
    """The style, for the time of the block alone. Draw and save within it."""
    from matplotlib import rc_context

    with rc_context(_RC):
        yield


def save_figure(figure: "Figure", path: Path, facts: Mapping[str, str]) -> None:
    """Write a figure as vector PDF and, beside it, as PNG. Neither carries a date or a version.

    Args:
        path: the .pdf file.
        facts: what made the figure; goes into the files' metadata.
    """
    subject = "; ".join(f"{key}: {value}" for key, value in facts.items())
    undated = {"CreationDate": None, "Creator": "CoCal", "Producer": None, "Subject": subject}
    with atomic_path(path) as partial:
        figure.savefig(partial, format="pdf", metadata=undated)
    with atomic_path(path.with_suffix(".png")) as partial:
        figure.savefig(partial, format="png", metadata={"Software": None, "Description": subject})
