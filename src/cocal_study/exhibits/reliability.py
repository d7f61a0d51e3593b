"""Reliability diagrams above histograms of confidence on one set (figure 3); figures/reliability_all has all sets."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from cocal.drawing.bins import legend_entries, plot_reliability
from cocal.drawing.style import LEGEND, SMALL_PRINT, TEXT_WIDTH, Axes, Figure
from cocal.metrics.calibration import evaluate, reliability_bins
from cocal.metrics.shown import metric_text
from cocal.settings.base import Count
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.cubes.better import CONFIDENCE_QUALITY
from cocal_study.cubes.cube import UNSEEDED
from cocal_study.exhibits.base.exhibit import ComparedLayout, FigureExhibit, Labelled, labelled, of_main
from cocal_study.exhibits.base.inputs import rows_by_seed
from cocal_study.exhibits.drawing.curves import PAGE_HEIGHT
from cocal_study.exhibits.typesetting.wording import counted
from cocal_study.planning.plan import available_methods, final_predictions

_EVALUATED = ("confidence", "valid", "correct")
"""Columns of the predictions, as `cocal.metrics.calibration.evaluate` takes them."""
_LINE = 0.11
"""Height of a line of small print, in inches, like all sizes below."""
_NARROW = 1.5
"""Panels that are narrower break their titles into lines."""
_TITLE = 9.7
"""Width of the longest line of a title, in multiples of its font size."""


class Layout(ComparedLayout):
    """The contents of the figure: a row of panels for each data set and a column for each method."""

    datasets: tuple[Labelled, ...]
    seed: int = 42
    """Companion seed that is drawn. It is one seed, because averaged seeds would have no whole counts."""
    bins: Count = 10


def reliability_of(study: Study, datasets: Iterable[str], **fields: Any) -> Iterator[FigureExhibit]:
    """Declare the diagrams of some data sets with title, position and caption, if the study has a method of
    `reports.reliability_methods`."""
    available = available_methods(study)
    if methods := tuple(name for name in study.reports.reliability_methods if name in available):
        layout = Layout(
            **of_main(study),
            datasets=labelled(study, datasets),
            methods=methods,
            seed=study.reports.reliability_seed,
            bins=study.metrics.bins,
        )
        inputs = {"predictions": final_predictions(study, study.main_backbone)}
        yield FigureExhibit(**fields, chapter="Main results", layout=layout, inputs=inputs)


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    """The figure of `reports.reliability_dataset`."""
    dataset = study.reports.reliability_dataset
    yield from reliability_of(
        study,
        [dataset],
        title=f"Reliability diagrams, {study.datasets[dataset].label}",
        position=11,
        caption="Reliability diagrams and counts on one set (the paper's figure 3). A bar is the gap "
        "of its bin, from the mean confidence of the responses to their accuracy, which a cap marks; a calibrated "
        "method has caps on the diagonal and no bars. Hatched bars hang below the diagonal, where confidence is "
        "too high; the others stand above it, where it is too low. Pale bins hold too few responses to tell "
        "anything; empty bins are left blank. Companions are drawn with one seed, so that counts are whole. The ECE "
        "and AUROC in brackets are the means over all seeds, as in the main table.",
    )


def prepare(layout: Layout, predictions: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The numbers of the diagrams, one row for each bin: columns dataset, method, seed (-1 without), left and right
    (edges of the bin, right-closed), count, accuracy and mean_confidence (NaN for an empty bin); and, the same for all
    bins of a panel, n, n_valid, ece and auroc of the seed drawn, seeds (their number, 0 without) and ece_of_seeds and
    auroc_of_seeds (means over the seeds, as in tables/main)."""
    table = pd.concat(predictions, ignore_index=True)
    panels = []
    for dataset in (one.name for one in layout.datasets):
        for method in layout.methods:
            by_seed = {
                seed: tuple(rows.sort_values("response_id")[name].to_numpy() for name in _EVALUATED)
                for seed, rows in rows_by_seed(table, layout, dataset, method, layout.seed).items()
            }
            drawn = UNSEEDED if UNSEEDED in by_seed else layout.seed
            confidence, valid, correct = by_seed[drawn]
            metrics = {seed: evaluate(c, v, right, layout.bins) for seed, (c, v, right) in by_seed.items()}
            means = {name: np.mean([one[name] for one in metrics.values()]) for name in CONFIDENCE_QUALITY}
            panel = {
                **{"dataset": dataset, "method": method, "seed": drawn},
                **reliability_bins(confidence[valid], correct[valid], layout.bins),
                **{"n": len(valid), "n_valid": int(valid.sum())},
                **{name: metrics[drawn][name] for name in CONFIDENCE_QUALITY},
                "seeds": 0 if drawn == UNSEEDED else len(by_seed),
            }
            panels.append(pd.DataFrame(panel | {f"{name}_of_seeds": mean for name, mean in means.items()}))
    return pd.concat(panels, ignore_index=True)


def draw(numbers: pd.DataFrame, layout: Layout) -> Figure:
    """Draw a row of panels for each data set and a column for each method; the small print below says what was measured
    where the figure is taken out of its document."""
    from matplotlib.figure import Figure

    source = f"{layout.study} study, {layout.backbone_label}, step {layout.step}"
    panels = dict(iter(numbers.groupby(["dataset", "method"], sort=False)))
    methods = list(dict.fromkeys(numbers["method"]))
    grid = _Grid(len(layout.datasets), len(methods))
    figure = Figure(figsize=(TEXT_WIDTH, grid.height))
    for row, dataset in enumerate(layout.datasets):
        in_row = [panels[dataset.name, method] for method in methods]
        # a row without any valid confidence needs an axis, too
        most = max(1, *(panel["count"].max() for panel in in_row))
        for column, (method, panel) in enumerate(zip(methods, in_row, strict=True)):
            diagram = figure.add_axes(grid.box(column, grid.diagram_top(row), grid.diagram))
            histogram = figure.add_axes(grid.box(column, grid.histogram_top(row), grid.histogram))
            plot_reliability(diagram, histogram, panel, METHODS[method].colour)
            histogram.set_ylim(0, 1.05 * most)
            _panel_titles(diagram, histogram, panel.iloc[0], METHODS[method].label if row == 0 else None, grid)
            for ax, name in ((diagram, "Accuracy"), (histogram, "Count")):
                ax.tick_params(labelleft=column == 0)
                if column == 0:
                    ax.set_ylabel(name)
                    ax.yaxis.set_label_coords(-0.27 / grid.panel, 0.5)  # aligned, whatever the numbers' width
        x, y = 0.09, (grid.diagram_top(row) + grid.histogram_top(row) + grid.histogram) / 2
        figure.text(*grid.point(x, y), dataset.label, rotation=90, ha="center", va="center", fontweight="bold")
    seeded = numbers[numbers["seeds"] > 1]
    if len(seeded):
        seed, seeds = (int(seeded[name].iloc[0]) for name in ("seed", "seeds"))
        source = f"{source}; companions of seed {seed}, in brackets the mean of {counted(seeds, 'seed')}"
    middle = (grid.left + TEXT_WIDTH - grid.right) / 2
    low, legend = (grid.point(middle, grid.height - above) for above in (0.04, 0.18))
    figure.text(*grid.point(middle, grid.height - 0.51), "Confidence", ha="center", va="bottom")
    figure.legend(handles=legend_entries(), loc="lower center", bbox_to_anchor=legend, ncols=3, **LEGEND)
    figure.text(*low, source, ha="center", va="bottom", **SMALL_PRINT)
    return figure


class _Grid:
    """Places of the panels, in inches from the top left."""

    left, right, bottom, between, columns_apart = 0.62, 0.06, 0.81, 0.16, 0.13

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.diagram, self.histogram = rows, 1.15, 0.42
        self.panel = (TEXT_WIDTH - self.left - self.right - (columns - 1) * self.columns_apart) / columns
        self.narrow = self.panel < _NARROW
        self.top = 0.36 + 2 * _LINE * self.narrow
        self.rows_apart = 0.34 + _LINE * self.narrow
        scale = min(1.0, 1 - (self.height - PAGE_HEIGHT) / (rows * (self.diagram + self.histogram)))
        self.diagram, self.histogram = scale * self.diagram, scale * self.histogram

    @property
    def height(self) -> float:
        return self.diagram_top(self.rows) - self.rows_apart + self.bottom

    def diagram_top(self, row: int) -> float:
        return self.top + row * (self.diagram + self.between + self.histogram + self.rows_apart)

    def histogram_top(self, row: int) -> float:
        return self.diagram_top(row) + self.diagram + self.between

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Return a point given in inches as fractions of the figure from the bottom left."""
        return x / TEXT_WIDTH, 1 - y / self.height

    def box(self, column: int, top: float, size: float) -> tuple[float, float, float, float]:
        x, y = self.point(self.left + column * (self.panel + self.columns_apart), top + size)
        return x, y, self.panel / TEXT_WIDTH, size / self.height


def _panel_titles(diagram: Axes, histogram: Axes, one: pd.Series, label: str | None, grid: _Grid) -> None:
    metrics = []
    for name in CONFIDENCE_QUALITY:
        of_seeds = f" ({metric_text(name, one[f'{name}_of_seeds'])})" if one["seeds"] > 1 else ""
        metrics.append(f"{name.upper()} {metric_text(name, one[name])}{of_seeds}")
    size = min(7, 72 * (grid.panel + grid.columns_apart) / _TITLE)
    where = {"transform": diagram.transAxes, "ha": "center", "va": "bottom", "fontsize": size, "linespacing": 1.1}
    diagram.text(0.5, 1 + 0.03 / grid.diagram, ("\n" if grid.narrow else "   ").join(metrics), **where)
    if label:
        above = 72 * (0.05 + _LINE * (1.2 + grid.narrow))
        shown = label.replace(" (", "\n(") if grid.narrow else label
        diagram.set_title(shown, fontweight="bold", pad=above, linespacing=0.95)
    some_invalid = one["n_valid"] < one["n"]
    n = f"{one['n_valid']:,} of {one['n']:,} valid" if some_invalid else f"n = {one['n']:,}"
    histogram.text(1, 1.04, n, transform=histogram.transAxes, ha="right", va="bottom", fontsize=6.5)
