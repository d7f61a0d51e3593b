"""CoCal less PostCal under conditions that are changed one at a time: a forest, and the margins by PostCal's own bias
(beyond the paper)."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from cocal.drawing.style import INK, Axes, Figure
from cocal_study.config.study import Study
from cocal_study.cubes.better import gain
from cocal_study.evidence.published import METRICS, Published
from cocal_study.evidence.regimes import PAIRS, SCORES, margins, over_points
from cocal_study.exhibits.base.exhibit import FigureExhibit
from cocal_study.exhibits.drawing.curves import entry, panel_rows
from cocal_study.exhibits.regimes import TARGET, Layout, layout_of

Looks = Mapping[str, tuple[str, str]]
"""Colour and mark of every condition."""
PAPER = "the paper"
"""The axis of the paper's own point."""
_LOOKS = (("#1b6e53", "o"), ("#a0701f", "s"), ("#4a5fa5", "^"), ("#7a4fa3", "v"), ("#2f7f9d", "P"), ("#5b3a1e", "X"))
"""Colour and mark of each condition; none is the red of a method."""
_OWN = {"color": "#6a6a6a", "markerfacecolor": "white", "markeredgewidth": 0.8}
"""The study's own values, which stand on every axis and are drawn once by PostCal's bias."""
_TITLES = {"ece": "ECE", "brier": "Brier score", "auroc": "AUROC"}
_PAPER = {"color": INK, "marker": "D", "markersize": 4.5, "linestyle": "none", "markeredgewidth": 0, "zorder": 4}
_LABELS, _BETWEEN, _ROW, _SCATTER = 1.55, 0.3, 0.15, 1.1
"""Sizes in inches: the names of levels, the space between panels, the height of a row, and of the panels below."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    if study.reports.regimes:
        yield FigureExhibit(
            name="regimes",
            title="Margins of CoCal over PostCal under other conditions",
            chapter="Claims",
            position=3,
            caption="Margins of CoCal over PostCal in ECE, Brier score and AUROC, positive where CoCal is better, both "
            "with binary supervision. Above, conditions that are changed one at a time, with the mean over replicates "
            "and the interval of Student's t, and a small dot for every replicate; the unchanged condition, with "
            "responses sampled as rollouts are, is hollow and stands on every axis. Below, the replicates' margins by "
            "the bias of PostCal, its mean confidence less the accuracy: to the right of zero it is over-confident. A "
            "diamond is the paper's own point.",
            layout=layout_of(study),
            inputs={"regimes": [f"{study.reports.regimes}/points.csv"], "published": ["config/paper"]},
        )


def prepare(layout: Layout, regimes: pd.DataFrame, published: Published) -> pd.DataFrame:
    """The margins of every replicate, their means, and the paper's own point. The result has the columns axis, level,
    metric, replicate (0 for the mean), own (bool: the study's own value), bias, value, lower and upper (of the mean).
    The axis of the paper's point is `PAPER`."""
    gains = margins(regimes, TARGET)
    places = gains.groupby(["axis", "level"], sort=False)
    of_level = {place: tuple(part[SCORES[0]]) for place, part in places}
    shared = set.intersection(*({of_level[place] for place in of_level if place[0] == axis} for axis, _ in of_level))
    single = gains.melt([*gains.columns.difference(SCORES, sort=False)], list(SCORES), "metric", "value")
    means = over_points(gains, layout.level).merge(places["bias"].mean().reset_index(), on=["axis", "level"])
    paper = [
        {"axis": PAPER, "level": "", "replicate": 0, "metric": metric, "bias": bias, "value": value}
        for metric, bias, value in _published(published)
    ]
    every = pd.concat([means.assign(replicate=0), single, pd.DataFrame(paper)], ignore_index=True)
    own = [of_level.get(place) in shared for place in every[["axis", "level"]].itertuples(index=False, name=None)]
    return every.assign(own=own)[["axis", "level", "metric", "replicate", "own", "bias", "value", "lower", "upper"]]


def _published(published: Published) -> Iterator[tuple[str, float, float]]:
    """The metric, PostCal's bias and CoCal's margin of every metric that the paper states."""
    ours, theirs = PAIRS[TARGET]
    bias = published.metric("main", theirs, "mean_confidence")[0] - published.metric("main", theirs, "accuracy")[0]
    for metric in SCORES:
        if metric in METRICS.values():
            difference = published.metric("main", ours, metric)[0] - published.metric("main", theirs, metric)[0]
            yield metric, bias, gain(metric, difference)


def draw(numbers: pd.DataFrame, layout: Layout) -> Figure:
    """A column of panels for every metric: the forest above, and the margins by PostCal's bias below."""
    measured = numbers[numbers["axis"] != PAPER]
    rows = _rows(measured)
    looks = dict(zip(measured["axis"].unique(), _LOOKS, strict=False))
    dots = {"linestyle": "none", "markersize": 3.4}
    handles = [
        entry(axis, color=colour, marker=mark, markeredgewidth=0, **dots) for axis, (colour, mark) in looks.items()
    ]
    handles += [entry("the study's own values", marker="o", **_OWN, **dots), entry("the paper", **_PAPER)]
    figure, panels = panel_rows(
        [[_TITLES[metric] for metric in SCORES], [""] * len(SCORES)],
        [_ROW * (max(rows.values()) + 1), _SCATTER],
        label="Bias of PostCal: mean confidence less accuracy",
        handles=handles,
        source="Positive: CoCal is better. Small dots above: replicates; large marks and bars: their mean and its "
        f"interval.\nRegimes of the {layout.study} study, {layout.backbone_label}, macro average of mathematics.",
        left=_LABELS,
        between=_BETWEEN,
        columns=3,
    )
    for metric, above, below in zip(SCORES, *panels, strict=True):
        _forest(above, measured[measured["metric"] == metric], rows, looks, named=above is panels[0][0])
        _by_bias(below, numbers[numbers["metric"] == metric], looks)
    panels[1][0].set_ylabel("Margin")
    return figure


def _rows(measured: pd.DataFrame) -> dict[tuple[str, str], float]:
    """The rows, from above, of every condition (with the level "") and of its levels."""
    rows: dict[tuple[str, str], float] = {}
    at = 0.0
    for axis, part in measured.groupby("axis", sort=False):
        for level in ("", *part["level"].unique()):
            rows[str(axis), level] = at
            at += 1
        at += 0.35
    return rows


def _forest(ax: Axes, panel: pd.DataFrame, rows: Mapping[tuple[str, str], float], looks: Looks, named: bool) -> None:
    for (axis, level), part in panel.groupby(["axis", "level"], sort=False):
        at, (colour, mark) = rows[axis, level], looks[axis]
        mean = part[part["replicate"] == 0].iloc[0]
        single = part[part["replicate"] > 0]["value"]
        ax.plot(single, [at + 0.32] * len(single), ".", color=colour, markersize=3.4, markeredgewidth=0, alpha=0.7)
        ax.plot([mean["lower"], mean["upper"]], [at, at], color=colour, linewidth=0.9)
        face = "white" if mean["own"] else colour
        ax.plot(mean["value"], at, mark, color=colour, markersize=3.6, markerfacecolor=face, markeredgewidth=0.8)
    ax.axvline(0, color=INK, linewidth=0.5)
    ax.set_ylim(max(rows.values()) + 0.7, -0.7)
    ax.set_yticks(list(rows.values()), [level or axis for axis, level in rows] if named else [])
    if named:
        for label, (axis, level) in zip(ax.get_yticklabels(), rows, strict=True):
            label.set(color=INK if level else looks[axis][0], fontweight="normal" if level else "bold", fontsize=6.5)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", linewidth=0.3, color="#dddddd")
    ax.set_axisbelow(True)
    _few_ticks(ax.xaxis)


def _by_bias(ax: Axes, panel: pd.DataFrame, looks: Looks) -> None:
    for axis, part in panel[(panel["replicate"] > 0) & ~panel["own"]].groupby("axis", sort=False):
        colour, mark = looks[axis]
        ax.plot(part["bias"], part["value"], mark, color=colour, markersize=3.2, markeredgewidth=0, alpha=0.8)
    own = panel[(panel["replicate"] > 0) & panel["own"]].drop_duplicates("replicate")
    ax.plot(own["bias"], own["value"], "o", markersize=3.2, **_OWN)
    stated = panel[panel["axis"] == PAPER]
    ax.plot(stated["bias"], stated["value"], **_PAPER)
    for line in (ax.axhline, ax.axvline):
        line(0, color=INK, linewidth=0.5, zorder=0)
    _few_ticks(ax.xaxis)
    _few_ticks(ax.yaxis)


def _few_ticks(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
