"""Rows of panels with curves over training steps, for the figures that show macro averages."""

import re
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

import pandas as pd

from cocal.drawing.style import INK, LEGEND, SMALL_PRINT, TEXT_WIDTH, Artist, Axes, Figure
from cocal_study.config.methods import METHODS
from cocal_study.cubes.better import CONFIDENCE_QUALITY
from cocal_study.cubes.cells import read_cells
from cocal_study.exhibits.base.exhibit import CurvesLayout, macro_source
from cocal_study.exhibits.base.inputs import Cube, mean_cell
from cocal_study.planning.plan import MATHEMATICS

TITLES = {
    "accuracy": "Accuracy (%)",
    "mean_confidence": "Mean confidence",
    "ece": "ECE $\\downarrow$",
    "auroc": "AUROC $\\uparrow$",
}
"""Title of the panel of each metric."""

SEED_WHISKERS = "whiskers: standard deviation over companions' seeds, one policy"
QUESTION_WHISKERS = "whiskers: bootstrap interval over the questions"
"""Words of the small print about the error bars."""

_APART = 2.0
"""Distance in points between the markers of two methods at one step, so that their error bars do not overlap."""
_BESIDE = "#ececec"
"""Colour of the band that joins the markers of one stage, which are drawn side by side."""
HALF_WIDTH = 0.48 * TEXT_WIDTH
"""Width in inches of a figure that shares the text's width with another one."""
PAGE_HEIGHT = 8.6
"""Greatest height of a figure in inches. It leaves space for a caption on a page with 9 inches of text."""
_RIGHT, _TOP, _TICKS, _ENTRY, _PRINT = 0.06, 0.22, 0.17, 0.13, 0.1
"""Sizes in inches: the right margin, and the heights of a title, of tick labels, of an axis label or a row of the
legend, and of a line of small print."""


def read_curves(layout: CurvesLayout, cube: Cube, metrics: Sequence[str]) -> pd.DataFrame:
    """Return macro averages of every method at every step, as means over companions' seeds: columns step or
    source_step, method, and those of `cocal_study.cubes.cells.read_cell`.

    The layout's steps are stages of the policy, whose companions learnt from the rollouts up to it. Where the layout
    names one step of the policy, they are the numbers of rollout steps that companions learnt from, and the cube has
    the dimension `source_step`.
    """
    fixed = layout.step is not None
    cells = {
        (step, method): mean_cell(
            layout.backbone, method, layout.step or step, MATHEMATICS, **({"source_step": step} if fixed else {})
        )
        for step in layout.steps
        for method in layout.methods
    }
    return read_cells(cube, cells, ["source_step" if fixed else "step", "method"], metrics)


def plot_stages(ax: Axes, panel: pd.DataFrame) -> None:
    """Draw the rows of `read_curves` for one metric over the stages, with its interval as whiskers, and a band behind
    the markers of each stage."""
    scale = 100.0 if panel["metric"].iloc[0] == "accuracy" else 1.0
    plot_curves(ax, panel.rename(columns={"lower": "low", "upper": "high"}), steps="step", scale=scale)
    for step in panel["step"].unique():
        ax.axvline(step, color=_BESIDE, linewidth=_APART * panel["method"].nunique() + 5, zorder=0)
    ax.margins(x=0.2)
    ax.tick_params(axis="x", length=0)


def plot_sweep(ax: Axes, panel: pd.DataFrame, scale: float = 1.0) -> None:
    """Draw the rows of `read_curves` for one metric, times `scale`, against the rollout steps learnt from.

    Whiskers are the column seed_sd. The axis of the steps is logarithmic, and each has a label.
    """
    from matplotlib.ticker import NullLocator

    ends = panel.assign(low=panel["value"] - panel["seed_sd"], high=panel["value"] + panel["seed_sd"])
    plot_curves(ax, ends, steps="source_step", scale=scale)
    steps = sorted(panel["source_step"].unique())
    ax.set_xscale("log")
    ax.set_xticks(steps, [str(step) for step in steps])
    ax.xaxis.set_minor_locator(NullLocator())
    room = (steps[-1] / steps[0]) ** 0.07 if len(steps) > 1 else 1.5
    ax.set_xlim(steps[0] / room, steps[-1] * room)


def draw_stages(numbers: pd.DataFrame, layout: CurvesLayout, *, about: str = "; ", **row: Any) -> Figure:
    """Draw a panel for each metric of `read_curves` over the stages. `about` is added to the small print, between
    source and whiskers; `row` is passed to `panel_row`."""
    source = f"{macro_source(layout)}{about}{QUESTION_WHISKERS}\nmarks in a band are of one step, side by side"
    handles = method_handles(layout.methods)
    return metric_row(numbers, plot_stages, label="Training step", handles=handles, source=source, **row)


def metric_row(numbers: pd.DataFrame, plot: Callable[[Axes, pd.DataFrame], object], **row: Any) -> Figure:
    """Draw a panel for each metric, in the order of the numbers; `plot` draws the rows of one metric, and `row` has the
    other arguments of `panel_row`."""
    panels = dict(iter(numbers.groupby("metric", sort=False)))
    figure, axes = panel_row([TITLES[metric] for metric in panels], **row)
    for ax, panel in zip(axes, panels.values(), strict=True):
        plot(ax, panel)
    return figure


def plot_curves(ax: Axes, panel: pd.DataFrame, *, steps: str, scale: float = 1.0) -> None:
    """Draw one curve for each method, in the order of the rows of one metric, with the columns method, `steps` (whose
    values get ticks), value, low and high (the ends of the error bar); values are multiplied by `scale`."""
    from matplotlib.transforms import ScaledTranslation

    methods = list(dict.fromkeys(panel["method"]))
    for place, method in enumerate(methods):
        curve = panel[panel["method"] == method]
        drawn = ax.errorbar(
            curve[steps],
            scale * curve["value"],
            scale * abs(curve[["low", "high"]].sub(curve["value"], axis=0)).to_numpy().T,
            elinewidth=0.6,
            **look_of(method),
        )
        points = _APART * (place - (len(methods) - 1) / 2)
        beside = ax.transData + ScaledTranslation(points / 72, 0, ax.get_figure().dpi_scale_trans)
        for artist in drawn.get_children():  # The artists move after the axes have taken their limits from the data.
            artist.set_transform(beside)
    ax.set_xticks(sorted(panel[steps].unique()))
    value_axis(ax, panel)
    ax.margins(x=0.12, y=0.08)


def value_axis(ax: Axes, panel: pd.DataFrame) -> None:
    """Give the axis at least three ticks; if no value of the panel is defined, remove them and say so in its middle."""
    from matplotlib.ticker import MaxNLocator

    if panel["value"].isna().all():
        ax.set_yticks([])
        ax.text(0.5, 0.5, "undefined", transform=ax.transAxes, ha="center", va="center", **SMALL_PRINT)
    else:
        ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], min_n_ticks=3))


def panel_row(titles: Sequence[str], *, height: float | None, **below: Any) -> tuple[Figure, list[Axes]]:
    """Make empty panels side by side, square if `height` is None; `below` has the other arguments of `panel_rows`."""
    figure, (panels,) = panel_rows([titles], [height], **below)
    return figure, panels


def panel_rows(
    titles: Sequence[Sequence[str]],
    heights: Sequence[float | None],
    *,
    source: str,
    label: str = "",
    handles: Sequence[Artist] = (),
    tops: Sequence[float] = (),
    width: float = TEXT_WIDTH,
    left: float = 0.34,
    between: float = 0.36,
    columns: int | None = None,
) -> tuple[Figure, list[list[Axes]]]:
    """Make rows of empty panels above the label of their horizontal axes, the legend and the small print (`source`).

    All sizes are in inches. Each row has a height (None for square panels) and a space above it (`tops`, by default for
    a title and the tick labels of the row before). `width` is that of the figure, `left` the space to the left of the
    first panel, and `between` that between two panels. The legend has as many columns as entries by default.
    """
    from matplotlib.figure import Figure

    count = len(titles[0])
    panel = (width - left - _RIGHT - (count - 1) * between) / count
    known = [panel if height is None else height for height in heights]
    tops = tops or [_TOP, *[_TICKS + _TOP] * (len(known) - 1)]
    columns = columns or max(len(handles), 1)
    legend = 0.06 + _PRINT * len(source.splitlines())
    labels = legend + 0.05 + _ENTRY * ceil(len(handles) / columns)
    total = labels + _ENTRY + _TICKS + sum(known) + sum(tops)
    figure = Figure(figsize=(width, total))
    rows, bottom = [], total
    for names, height, top in zip(titles, known, tops, strict=True):
        bottom -= top + height
        row = []
        for place, name in enumerate(names):
            corner = left + place * (panel + between)
            row.append(figure.add_axes((corner / width, bottom / total, panel / width, height / total)))
            row[-1].set_title(name, pad=4)
        rows.append(row)
    figure.text((left + width - _RIGHT) / 2 / width, labels / total, label, ha="center", va="bottom")
    if handles:
        at = (0.5, legend / total)
        figure.legend(handles=list(handles), loc="lower center", bbox_to_anchor=at, ncols=columns, **LEGEND)
    figure.text(0.5, 0.03 / total, source, ha="center", va="bottom", linespacing=1.1, **SMALL_PRINT)
    return figure, rows


def looks(shown: Mapping[str, tuple[str, str, Any, str]]) -> dict[str, dict[str, Any]]:
    """Return the looks of curves from their text, colour, marker and line style."""
    names = ("label", "color", "marker", "linestyle")
    rest = {"markersize": 3.2, "markeredgewidth": 0, "linewidth": 1}
    return {method: dict(zip(names, look, strict=True)) | rest for method, look in shown.items()}


def entry(label: str, **look: Any) -> Artist:
    """Return a legend entry for lines or marks of a look."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **look)


def method_handles(methods: Sequence[str]) -> list[Artist]:
    """Return the legend entries of the methods' curves."""
    return [entry(METHODS[method].label, **look_of(method)) for method in methods]


def look_of(name: str) -> dict[str, str | float]:
    """Return colour, marker and sizes of a method's curve."""
    method = METHODS[name]
    look = {"color": method.colour, "marker": method.marker, "linewidth": 1.1, "markersize": 3.4}
    if method.hollow:
        return look | {"markerfacecolor": "white", "markeredgecolor": method.colour, "markeredgewidth": 0.8}
    return look | {"markeredgecolor": "white", "markeredgewidth": 0.4}


def draw_replicates(numbers: pd.DataFrame, dataset: str, printed: pd.DataFrame | None = None) -> Figure:
    """Draw ECE and AUROC on a data set, or group of them, in every replicate of a study, methods one below another; a
    line marks the mean over them. The numbers are the spread of the main table
    (`cocal_study.planning.replicates.spread`). Circles are the paper's, if the cells of its main table are given
    (`cocal_study.evidence.published.Printed`)."""
    paper = {} if printed is None else printed[printed["dataset"] == dataset].set_index(["metric", "method"])["value"]
    replicates = [name for name in numbers if re.fullmatch(r"replicate_\d+", name)]
    shown = numbers[numbers["dataset"] == dataset].set_index(["metric", "method"])
    methods = list(dict.fromkeys(shown.index.get_level_values("method")))
    circles = "" if printed is None else ", circles the paper's numbers"
    source = f"Points are {len(replicates)} replicates with other seeds of the policies, lines means{circles}."
    titles = [TITLES[metric] for metric in CONFIDENCE_QUALITY]
    figure, panels = panel_row(titles, height=0.17 * len(methods), source=source, left=1.2, between=0.3)
    for ax, metric in zip(panels, CONFIDENCE_QUALITY, strict=True):
        for row, method in enumerate(methods):
            values, colour = shown.loc[(metric, method), replicates].astype(float), METHODS[method].colour
            apart = [0.3 * (k / max(len(replicates) - 1, 1) - 0.5) for k in range(len(replicates))]
            ax.scatter(values, [row + a for a in apart], s=9, color=colour, linewidths=0, alpha=0.85, zorder=3)
            ax.plot([shown.loc[(metric, method), "mean"]] * 2, [row - 0.36, row + 0.36], color=INK, linewidth=0.8)
            if (metric, method) in paper:
                ring = {"s": 16, "facecolors": "none", "edgecolors": INK, "linewidths": 0.7, "zorder": 4}
                ax.scatter(paper[metric, method], row, **ring)
        ax.set_yticks(range(len(methods)), [METHODS[name].label for name in methods] if ax is panels[0] else [])
        ax.set_ylim(len(methods) - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="x", linewidth=0.3, color="#dddddd", zorder=0)
        ax.set_axisbelow(True)
    return figure
