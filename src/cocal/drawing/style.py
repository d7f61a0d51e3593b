"""The style of all figures: print size, fonts and colours. Equal data give files with equal bytes."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cocal.store import atomic_path
from cocal.store.origin import PARENTS

Artist = Axes = Figure = Any
"""Types of matplotlib in annotations, which a process that declares exhibits need not load."""

TEXT_WIDTH = 5.5
"""Width of the text in inches. Figures are drawn at the size at which they are printed."""

INK = "#262626"
"""Colour of axes, text and hatching."""

SMALL_PRINT = {"fontsize": 6.5, "color": "#666666"}
"""Style of the text below a figure that says where its numbers come from."""

LEGEND = {"borderaxespad": 0, "borderpad": 0, "handlelength": 1.8, "handletextpad": 0.5, "columnspacing": 1.4}
"""Spacing of a legend below a figure."""

_RC = {
    # Matplotlib includes these fonts, so every machine draws the same glyphs.
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
    "pdf.fonttype": 42,  # TrueType fonts keep text as text
    "figure.dpi": 300,
    "savefig.dpi": 300,
}


@contextmanager
def paper_style() -> Iterator[None]:
    """Apply the style within the block. Figures are drawn and saved within it."""
    from matplotlib import rc_context

    for library in ("fontTools", "matplotlib"):  # they log every glyph at INFO
        logging.getLogger(library).setLevel(logging.WARNING)
    with rc_context(_RC):  # pyright: ignore[reportArgumentType] (the names are known to matplotlib alone)
        yield


def save_figure(figure: Figure, path: Path, metadata: Mapping[str, str], parents: str = "{}") -> None:
    """Write a figure as vector PDF and, beside it, as PNG. Neither carries a date or a version.

    Args:
        path: The .pdf file.
        metadata: Facts about the figure's origin, for the metadata of the files.
        parents: The files that it shows, with their digests, as JSON for the metadata of the PNG.
    """
    subject = "; ".join(f"{key}: {value}" for key, value in metadata.items())
    undated = {"CreationDate": None, "Creator": "CoCal", "Producer": None, "Subject": subject}
    with atomic_path(path) as partial:
        figure.savefig(partial, format="pdf", metadata=undated)
    with atomic_path(path.with_suffix(".png")) as partial:
        figure.savefig(partial, format="png", metadata={"Software": None, "Description": subject, PARENTS: parents})
