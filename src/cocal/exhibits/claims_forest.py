"""The margins of the paper's claims: a forest of this study's, with the published ones as marks (beyond the paper)."""

from collections.abc import Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

import pandas as pd

from cocal.config.study import Study
from cocal.evidence.claims import OF_THE_PAPER, Claim
from cocal.evidence.predicates import DEGENERATE, FAILS, HOLDS, OBSERVED, OPEN, UNOBSERVED
from cocal.evidence.verdicts import PAPER, REPLICATES, STUDY, is_measured, of_claims
from cocal.exhibits.base.exhibit import FigureExhibit
from cocal.exhibits.base.ledger import ClaimsLayout, claims_fields, judged
from cocal.exhibits.drawing.style import INK, LEGEND, PAGE_HEIGHT, SMALL_PRINT, TEXT_WIDTH, Axes, Figure
from cocal.study.plan import has_methods

Layout = ClaimsLayout
_HELD = {"color": "#1b6e53", "marker": "o", "markerfacecolor": "#1b6e53"}
_FAILED = {"color": "#b3401f", "marker": "s", "markerfacecolor": "#b3401f"}
_LOOKS = {
    HOLDS: _HELD,
    OPEN: {"color": "#6a6a6a", "marker": "o", "markerfacecolor": "white"},
    FAILS: _FAILED,
    OBSERVED: _HELD | {"markerfacecolor": "white"},
    UNOBSERVED: _FAILED | {"markerfacecolor": "white"},
    DEGENERATE: {"color": "#8a6d3b", "marker": "x", "markerfacecolor": "#8a6d3b"},
}
"""Colour and mark of each verdict; full and empty marks differ in greyscale, and so do round and square ones."""
_PUBLISHED = {"color": INK, "marker": "d", "markersize": 3.2, "linestyle": "none", "markeredgewidth": 0}
_REPLICATES = {"color": "#8a8a8a", "marker": "|", "markersize": 4, "linewidth": 0.7, "markeredgewidth": 0.7}
_ROW, _LABELS, _TOP, _BOTTOM = 0.142, 2.35, 0.08, 0.87
"""Height of a row, and the space for names, above and below, in inches."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    """The figure, where the study has CoCal."""
    if has_methods(study, "cocal-binary"):
        yield FigureExhibit(
            name="claims",
            title="Margins of the claims",
            chapter="Claims",
            position=2,
            caption="The margins of the claims in this study, with 95 % intervals over resamples of the questions, "
            "those of the published numbers as marks, and below them the mean over the replicates with the 95 % "
            "interval of Student's t. A margin is the number that decides a claim: a difference of ECE, AUROC, "
            "accuracy, mean confidence or a share, positive where the claim is true, and of several the least "
            "favourable. Verdicts are adjusted over all margins of a claim, the bars are not. Values, ranges and times "
            "are in the table alone.",
            **claims_fields(study),
        )


@wraps(judged, assigned=())  # which has the names of the inputs
def prepare(layout: Layout, *, ledger: tuple[Claim, ...], **inputs: Any) -> pd.DataFrame:
    """Judge the claims, and keep those that have a margin in the unit of a metric.

    Args:
        layout: The parts of the study that stand for those of the paper.
        ledger: The claims.
        inputs: The other arguments of `cocal.exhibits.base.ledger.judged`.

    Returns:
        The rows of `cocal.evidence.verdicts.judge_all` for claims about differences of metrics that the study or the
        published numbers decide, without the columns of the paper's words.
    """
    found = of_claims(judged(layout, ledger=ledger, **inputs))
    drawn = {claim.id for claim in ledger if claim.kind not in OF_THE_PAPER and not is_measured(claim)}
    drawn &= set(found.loc[found["source"].isin([PAPER, STUDY]) & found["value"].notna(), "claim"])
    kept = found[found["claim"].isin(drawn)].drop(
        columns=["quotation", "kind", "section", "reason", "combined", "count"]
    )
    return kept.reset_index(drop=True)


def draw(numbers: pd.DataFrame, layout: Layout) -> Figure:
    """One row for each claim, in the order of the paper."""
    from matplotlib.figure import Figure

    claims = list(numbers["claim"].unique())
    row = min(_ROW, (PAGE_HEIGHT - _TOP - _BOTTOM) / max(1, len(claims)))
    height = _TOP + _BOTTOM + row * max(1, len(claims))
    figure = Figure(figsize=(TEXT_WIDTH, height))
    place = (
        _LABELS / TEXT_WIDTH,
        _BOTTOM / height,
        (TEXT_WIDTH - _LABELS - 0.1) / TEXT_WIDTH,
        row * len(claims) / height,
    )
    ax = figure.add_axes(place)
    _rows(ax, numbers, claims)
    handles = _legend(numbers)
    figure.legend(
        handles=handles,
        loc="lower center",
        ncols=(len(handles) + 1) // 2,
        bbox_to_anchor=(0.5, 0.19 / height),
        **LEGEND,
    )
    said = f"{layout.study} study, {layout.label}; bars: 95 % bootstrap interval over the questions"
    figure.text(0.5, 0.05 / height, said, ha="center", va="bottom", **SMALL_PRINT)
    return figure


def _rows(ax: Axes, numbers: pd.DataFrame, claims: Sequence[str]) -> None:
    """Margins from top to bottom; where the interval leaves the panel it ends at its edge."""
    titles = numbers.drop_duplicates("claim").set_index("claim")["title"]
    for source in (PAPER, REPLICATES, STUDY):
        for row in numbers[(numbers["source"] == source) & numbers["value"].notna()].itertuples():
            place = claims.index(row.claim)
            if source == PAPER:
                ax.plot([row.value], [place], **_PUBLISHED, zorder=4)
            elif source == REPLICATES:
                ax.plot([row.lower, row.value, row.upper], [place + 0.3] * 3, **_REPLICATES, zorder=2)
            else:
                look = _LOOKS[row.verdict]
                ax.plot([row.lower, row.upper], [place] * 2, color=look["color"], linewidth=1.1, zorder=2)
                ax.plot([row.value], [place], markersize=3.6, markeredgewidth=0.8, linestyle="none", **look, zorder=3)
    ax.axvline(0, color=INK, linewidth=0.6, zorder=1)
    ax.set_yticks(range(len(claims)), [titles[claim] for claim in claims], fontsize=6.6)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(claims) - 0.4, -0.6)
    for place in range(1, len(claims), 2):
        ax.axhspan(place - 0.5, place + 0.5, color="#f2f2f2", linewidth=0, zorder=0)
    ax.set_xlabel("Margin: positive where the claim is true")
    ax.spines["left"].set_visible(False)


def _legend(numbers: pd.DataFrame) -> list:
    """Entries for the verdicts and sources that occur."""
    from matplotlib.lines import Line2D

    shown = numbers[numbers["value"].notna()]
    of_study = set(shown.loc[shown["source"] == STUDY, "verdict"])
    handles = [
        Line2D([], [], linewidth=1.1, markersize=3.6, label=verdict, **look)
        for verdict, look in _LOOKS.items()
        if verdict in of_study
    ]
    handles.append(Line2D([], [], label="published numbers", **_PUBLISHED))
    if (shown["source"] == REPLICATES).any():
        handles.append(Line2D([], [], label="replicates: mean, 95 % of Student's t", **_REPLICATES))
    return handles
