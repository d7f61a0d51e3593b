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
"""Colour of the band behind the markers of one stage, which stand beside each other and are not of other steps."""
HALF_WIDTH = 0.48 * TEXT_WIDTH
"""Width in inches of a figure that shares the text's width with another one."""
PAGE_HEIGHT = 8.6
"""Greatest height of a figure in inches. It leaves space for a caption on a page with 9 inches of text."""
_RIGHT, _TOP, _TICKS, _ENTRY, _PRINT = 0.06, 0.22, 0.28, 0.13, 0.1
"""Sizes in inches: the right margin, and the heights of a title, of tick labels with the axis label, of a row of the
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
    """Draw a panel for each metric of `read_curves` over the stages; the small print says between the place of the
    numbers and the meaning of the whiskers what they are `about`, and `row` has sizes for `panel_row`."""
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


def panel_row(
    titles: Sequence[str],
    *,
    height: float | None,
    label: str,
    handles: Sequence[Artist],
    source: str,
    width: float = TEXT_WIDTH,
    left: float = 0.34,
    between: float = 0.36,
    columns: int | None = None,
) -> tuple[Figure, list[Axes]]:
    """Make empty panels side by side, with the label of their horizontal axes, the legend and the small print
    (`source`) below them. All sizes are in inches; panels are square if `height` is None. The legend has as many
    columns as entries by default, and there is none without entries. `left` is the space to the left of the first
    panel."""
    from matplotlib.figure import Figure

    panel = (width - left - _RIGHT - (len(titles) - 1) * between) / len(titles)
    height = panel if height is None else height
    columns = columns or max(len(handles), 1)
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
    if handles:
        at = (0.5, legend / total)
        figure.legend(handles=list(handles), loc="lower center", bbox_to_anchor=at, ncols=columns, **LEGEND)
    figure.text(0.5, 0.03 / total, source, ha="center", va="bottom", linespacing=1.1, **SMALL_PRINT)
    return figure, panels


def panels_above(
    count: int,
    sizes: tuple[float, float, float],
    handles: Sequence[Artist],
    columns: int,
    source: str,
    rows: int = 1,
) -> tuple[Figure, Any]:
    """Make panels with axis labels of their own side by side, above a legend of so many columns and the small print.

    The sizes are the height of the figure in inches, the share of its width to the left, and the inches below. The axes
    are an array [count], or [rows, count] with the same horizontal axis.
    """
    from matplotlib.figure import Figure

    height, left, bottom = sizes
    figure = Figure(figsize=(TEXT_WIDTH, height))
    axes = figure.subplots(rows, count, sharex=rows > 1)
    for ax in axes.flat:
        ax.grid(axis="y", linewidth=0.3, color="#dddddd")
    figure.subplots_adjust(left, bottom / height, 0.99, 1 - 0.2 / height, wspace=0.22, hspace=0.36)
    figure.legend(handles=handles, loc="lower center", ncols=columns, bbox_to_anchor=(0.5, 0.2 / height), **LEGEND)
    figure.text(0.5, 0.04 / height, source, ha="center", va="bottom", **SMALL_PRINT)
    return figure, axes


def looks(shown: Mapping[str, tuple[str, str, Any, str]]) -> dict[str, dict[str, Any]]:
    """Return the looks of curves, of which words, colour, mark and line are given."""
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
    from matplotlib.figure import Figure

    paper = {} if printed is None else printed[printed["dataset"] == dataset].set_index(["metric", "method"])["value"]
    replicates = [name for name in numbers if re.fullmatch(r"replicate_\d+", name)]
    shown = numbers[numbers["dataset"] == dataset].set_index(["metric", "method"])
    methods = list(dict.fromkeys(shown.index.get_level_values("method")))
    names, right, between, below = 1.2, 0.08, 0.3, 0.36  # in inches
    rows = 0.17 * len(methods)
    height = 0.24 + rows + below
    width = (TEXT_WIDTH - names - right - between) / 2
    figure = Figure(figsize=(TEXT_WIDTH, height))
    for place, metric in enumerate(CONFIDENCE_QUALITY):
        left = names + place * (width + between)
        ax = figure.add_axes((left / TEXT_WIDTH, below / height, width / TEXT_WIDTH, rows / height))
        ax.set_title(TITLES[metric], pad=4)
        for row, method in enumerate(methods):
            values, colour = shown.loc[(metric, method), replicates].astype(float), METHODS[method].colour
            apart = [0.3 * (k / max(len(replicates) - 1, 1) - 0.5) for k in range(len(replicates))]
            ax.scatter(values, [row + a for a in apart], s=9, color=colour, linewidths=0, alpha=0.85, zorder=3)
            ax.plot([shown.loc[(metric, method), "mean"]] * 2, [row - 0.36, row + 0.36], color=INK, linewidth=0.8)
            if (metric, method) in paper:
                ring = {"s": 16, "facecolors": "none", "edgecolors": INK, "linewidths": 0.7, "zorder": 4}
                ax.scatter(paper[metric, method], row, **ring)
        ax.set_yticks(range(len(methods)), [METHODS[name].label for name in methods] if place == 0 else [])
        ax.set_ylim(len(methods) - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="x", linewidth=0.3, color="#dddddd", zorder=0)
        ax.set_axisbelow(True)
    circles = "" if printed is None else ", circles the paper's numbers"
    text = f"Points are {len(replicates)} replicates with other seeds of the policies, lines means{circles}."
    figure.text(0.5, 0.04 / height, text, ha="center", va="bottom", **SMALL_PRINT)
    return figure
