"""Confidence quality of each stage's companions on the policies of all stages (fig:rq3_cross_iter)."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from cocal.drawing.style import INK, TEXT_WIDTH, Axes, Figure
from cocal.metrics.shown import metric_text
from cocal_study.config.study import Study
from cocal_study.cubes.better import BETTER, CONFIDENCE_QUALITY
from cocal_study.cubes.cells import read_cells
from cocal_study.exhibits.base.exhibit import CurvesLayout, FigureExhibit, curves, macro_source
from cocal_study.exhibits.base.inputs import Cube, mean_cell
from cocal_study.exhibits.drawing.curves import HALF_WIDTH, TITLES, panel_row
from cocal_study.planning.plan import MATHEMATICS, has_methods
from cocal_study.planning.results import metrics_file

Layout = CurvesLayout
_FRAME = {"facecolor": "none", "edgecolor": INK, "linewidth": 1.1}
_UNDEFINED = "#eeeeee"
_MOST_AT_HALF_WIDTH = 3
"""Largest number of stages whose numbers can be read in a figure of half the text's width."""


def shades() -> Any:
    """Colours from the worst value to the best: one hue that darkens, but stays light enough to read black text."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    blues = colormaps["Blues"](np.linspace(0.05, 0.6, 128))
    return ListedColormap(blues).with_extremes(bad=_UNDEFINED)


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    if has_methods(study, "cocal-binary"):
        yield FigureExhibit(
            title="Transfer between stages",
            chapter="Transfer",
            position=31,
            caption="Companions of each stage (source: the rollout steps that they learnt from) score the responses of "
            "each stage's policy (target). The figure shows CoCal (binary) and the macro average. On the diagonal, "
            "framed, source and target match. Darker is better, and each panel has its own scale.",
            layout=curves(study, ["cocal-binary"], study.policy.stages),
            inputs={"metrics": [metrics_file(study.main_backbone, "-sweep")]},
        )


def prepare(layout: Layout, metrics: Cube) -> pd.DataFrame:
    """Macro averages of every stage's companion on the responses of every stage's policy. The result has the columns
    source_step (rollout steps that the companion learnt from), step (of the policy) and those of
    `cocal_study.cubes.cells.read_cell`, in this order."""
    (method,) = layout.methods
    cells = {
        (source, stage): mean_cell(layout.backbone, method, stage, MATHEMATICS, source_step=source)
        for source in layout.steps
        for stage in layout.steps
    }
    return read_cells(metrics, cells, ["source_step", "step"], CONFIDENCE_QUALITY)


def plot_cross_iteration(ax: Axes, panel: pd.DataFrame, fontsize: float = 7) -> None:
    """Draw a square with its value for each pair of stages: rows are sources, columns targets, frames matched stages.

    The colours span the values of the panel, with the best one darkest.
    """
    from matplotlib.patches import Rectangle

    values = panel.pivot(index="source_step", columns="step", values="value")
    metric = panel["metric"].iloc[0]
    goodness = values if BETTER[metric] == "higher" else -values
    edges = np.arange(len(values) + 1)
    ax.pcolormesh(edges, edges, np.ma.masked_invalid(goodness), cmap=shades(), edgecolors="white", linewidth=1.5)
    for row, source_step in enumerate(values.index):
        for column, step in enumerate(values.columns):
            value = metric_text(metric, values.loc[source_step, step])
            ax.text(column + 0.5, row + 0.5, value, ha="center", va="center", fontsize=fontsize)
            if source_step == step:
                ax.add_patch(Rectangle((column + 0.04, row + 0.04), 0.92, 0.92, **_FRAME))
    ax.set(xlim=(0, len(values)), ylim=(len(values), 0), aspect="equal")  # the first source on top
    ax.set_xticks(edges[:-1] + 0.5, values.columns)
    ax.set_yticks(edges[:-1] + 0.5, values.index)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def draw(numbers: pd.DataFrame, layout: Layout) -> Figure:
    """Draw heat maps of the ECE and of the AUROC."""
    from matplotlib.patches import Patch

    stages = numbers["step"].nunique()
    figure, panels = panel_row(
        [TITLES[metric] for metric in CONFIDENCE_QUALITY],
        height=None,
        label="Target policy (training step)",
        handles=[Patch(**_FRAME, label="matched stage")],
        source=f"{macro_source(layout)}\ndarker is better, each panel on its own scale",
        width=HALF_WIDTH if stages <= _MOST_AT_HALF_WIDTH else TEXT_WIDTH,
        left=0.46,
        between=0.14,
    )
    cell = panels[0].get_position().width * figure.get_figwidth() / stages
    for ax, metric in zip(panels, CONFIDENCE_QUALITY, strict=True):
        plot_cross_iteration(ax, numbers[numbers["metric"] == metric], fontsize=min(7, 72 * cell / 3))
    panels[0].set_ylabel("Source (rollout steps)")
    panels[1].tick_params(labelleft=False)
    return figure
