"""The margins of the paper's claims: a forest of this study's and its replicates', with the published ones as marks
(beyond the paper)."""

from collections.abc import Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

import pandas as pd

from cocal.drawing.style import INK, Axes, Figure
from cocal_study.config.study import Study
from cocal_study.evidence.claims import Claim
from cocal_study.evidence.predicates import FAILS, HOLDS, OBSERVED, OPEN, UNOBSERVED
from cocal_study.evidence.verdicts import PAPER, REPLICATES, STUDY, UNITS, by_unit, is_measured, joined
from cocal_study.exhibits.base.exhibit import FigureExhibit
from cocal_study.exhibits.base.ledger import ClaimsLayout, claims_inputs, claims_layout, judged, readers
from cocal_study.exhibits.drawing.curves import PAGE_HEIGHT, entry, panel_rows
from cocal_study.planning.plan import has_methods

Layout = ClaimsLayout
_HELD = {"color": "#1b6e53", "marker": "o", "markerfacecolor": "#1b6e53"}
_FAILED = {"color": "#b3401f", "marker": "s", "markerfacecolor": "#b3401f"}
_LOOKS = {
    HOLDS: _HELD,
    OPEN: {"color": "#6a6a6a", "marker": "o", "markerfacecolor": "white"},
    FAILS: _FAILED,
    OBSERVED: _HELD | {"markerfacecolor": "white"},
    UNOBSERVED: _FAILED | {"markerfacecolor": "white"},
}
"""Colour and mark of each verdict; full and empty marks differ in greyscale, and so do round and square ones."""
_PUBLISHED = {"color": INK, "linestyle": "none", "marker": "d", "markersize": 3.4, "markeredgewidth": 0}
_OF_STUDY = {"markersize": 3.2, "markeredgewidth": 0.8, "linestyle": "none"}
_MEAN = {"marker": "|", "markersize": 4.2, "markeredgewidth": 1.3, "linestyle": "none"}
_BEYOND = {"markersize": 2.6, "markeredgewidth": 0, "clip_on": False, "zorder": 5}
"""The arrow at the edge of a panel that an interval leaves."""
_TITLES = {"ece": "ECE", "auroc": "AUROC", "share": "Accuracy,\nother shares"}
_ROW, _LABELS, _TOP, _BOTTOM, _APART = 0.23, 2.28, 0.38, 0.8, 0.12
"""Height of a row, the space for names, above and below, and that between two panels, in inches."""
_AT = {PAPER: -0.28, STUDY: 0, REPLICATES: 0.28}
"""Place of each source within a row, so that marks of two sources do not overlap."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    if has_methods(study, "cocal-binary"):
        yield FigureExhibit(
            name="claims",
            title="Margins of the claims",
            chapter="Claims",
            position=2,
            caption="The margins of the claims in ECE, in AUROC and in accuracy, confidence and other shares (0.01: a "
            "point), positive where a claim is true. Of claims that restate one another the first is shown, and of a "
            "claim with several comparisons the one that decides; tables/claims has all. Each row has, from above, the "
            "published number, this study with its 95 % interval over questions and companion seeds, and the mean of "
            "its replicates with the interval of Student's t. Arrows end intervals that a panel has no room for.",
            layout=claims_layout(study),
            inputs=claims_inputs(study),
        )


@wraps(judged, assigned=())  # whose signature names the inputs
def prepare(
    layout: Layout,
    *,
    ledger: tuple[Claim, ...],
    replicates: pd.DataFrame | None = None,
    central: pd.DataFrame | None = None,
    **inputs: Any,
) -> pd.DataFrame:
    """The margins of the claims about differences of metrics (`by_unit`), in a family only those of the first claim
    that has any; the other inputs are those of `readers`."""
    drawn = [claim for claim in ledger if not is_measured(claim)]
    numbers = by_unit(drawn, *readers(layout, **inputs), joined(replicates, central))
    first = numbers.groupby("family")["claim"].transform("first")
    return numbers[(numbers["family"] == "") | (numbers["claim"] == first)].reset_index(drop=True)


def draw(numbers: pd.DataFrame, layout: Layout) -> Figure:
    """One row for each claim, in the order of the paper, and one panel for each unit."""
    claims = list(numbers["claim"].unique())
    units = [unit for unit in UNITS if unit in set(numbers["margin"])]
    others = "".join(f", and on {label} where it is named" for label in layout.labels[1:])
    figure, (axes,) = panel_rows(
        [[_TITLES[unit] for unit in units]],
        [min(_ROW * len(claims), PAGE_HEIGHT - _TOP - _BOTTOM)],
        tops=[_TOP],
        label="Margin: positive where the claim is true",
        handles=_legend(numbers),
        source=f"{layout.study} study: claims judged on {layout.labels[0]}{others}; bars: 95 % intervals",
        left=_LABELS,
        between=_APART,
        columns=4,
    )
    for ax, unit in zip(axes, units, strict=True):
        _rows(ax, numbers[numbers["margin"] == unit], claims)
    shown = numbers.drop_duplicates("claim")["title"]
    for number, label in zip(("First", "Second"), layout.labels, strict=False):
        shown = shown.str.replace(f"{number} backbone", label)
    axes[0].set_yticks(range(len(claims)), shown, fontsize=6.6)
    return figure


def _rows(ax: Axes, numbers: pd.DataFrame, claims: Sequence[str]) -> None:
    """The margins of one unit from top to bottom, on an axis that shows all points and truncates long intervals."""
    points = numbers["value"].abs().max()
    widest = 1.12 * max(0.02, points if pd.notna(points) else 0)
    for row in numbers.itertuples():
        at = claims.index(row.claim) + _AT[row.source]
        look = _LOOKS.get(row.verdict, {})
        colour = look.get("color")
        if row.source == PAPER:
            ax.plot([row.value], [at], **_PUBLISHED, zorder=5)
        elif row.source == STUDY:
            ax.plot([row.lower, row.upper], [at] * 2, color=colour, linewidth=1.1, zorder=3)
            ax.plot([row.value], [at], **_OF_STUDY, **look, zorder=4)
        else:
            ax.plot([row.lower, row.upper], [at] * 2, color=colour, linewidth=0.8, zorder=2)
            ax.plot([row.value], [at], color=colour, **_MEAN, zorder=3)
        if row.source != PAPER:
            for mark, edge, is_cut in (("<", -widest, row.lower < -widest), (">", widest, row.upper > widest)):
                if is_cut:
                    ax.plot([edge], [at], mark, color=colour, **_BEYOND)
    ax.axvline(0, color=INK, linewidth=0.6, zorder=1)
    ax.set_xlim(-widest, widest)
    ax.set_yticks([])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(claims) - 0.5, -0.5)
    for place in range(1, len(claims), 2):
        ax.axhspan(place - 0.5, place + 0.5, color="#f2f2f2", linewidth=0, zorder=0)
    ax.locator_params(axis="x", nbins=3, steps=[1, 2, 4, 5, 10])
    ax.spines["left"].set_visible(False)


def _legend(numbers: pd.DataFrame) -> list:
    judged = set(numbers.loc[numbers["source"] != PAPER, "verdict"])
    handles = [
        entry(verdict, linewidth=1.1, markersize=3.4, **look) for verdict, look in _LOOKS.items() if verdict in judged
    ]
    handles.append(entry("published", **_PUBLISHED))
    if (numbers["source"] == REPLICATES).any():
        mean = {"color": "#6a6a6a", **_MEAN, "linestyle": "-", "linewidth": 0.8}
        handles.append(entry("mean of the replicates", **mean))
    return handles
