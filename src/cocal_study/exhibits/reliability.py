"""Reliability diagrams above histograms of confidence on one set (figure 3); figures/reliability_all has all sets."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from cocal.drawing.bins import legend_entries, plot_reliability
from cocal.drawing.style import TEXT_WIDTH, Axes, Figure
from cocal.metrics.calibration import evaluate, reliability_bins
from cocal.metrics.shown import metric_text
from cocal.settings.base import Count
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.cubes.better import CONFIDENCE_QUALITY
from cocal_study.cubes.cube import UNSEEDED
from cocal_study.exhibits.base.exhibit import ComparedLayout, FigureExhibit, Labelled, labelled, of_main
from cocal_study.exhibits.base.inputs import rows_by_seed
from cocal_study.exhibits.drawing.curves import PAGE_HEIGHT, panel_rows
from cocal_study.exhibits.typesetting.wording import counted
from cocal_study.planning.plan import available_methods, final_predictions

_EVALUATED = ("confidence", "valid", "correct")
"""Columns of the predictions, as `cocal.metrics.calibration.evaluate` takes them."""
_LINE = 0.11
"""Height of a line of small print, in inches, like all sizes below."""
_DIAGRAM, _HISTOGRAM, _LEFT, _BETWEEN, _BELOW = 1.15, 0.42, 0.62, 0.13, 0.77
"""Heights of the panels where the page has room, and the space to their left, between them and below."""
_NARROW = 1.6
"""Width, with the space beside it, below which a panel breaks its titles into lines."""
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
    for dataset in (shown.name for shown in layout.datasets):
        for method in layout.methods:
            by_seed = {
                seed: tuple(rows.sort_values("response_id")[name].to_numpy() for name in _EVALUATED)
                for seed, rows in rows_by_seed(table, layout, dataset, method, layout.seed).items()
            }
            drawn = UNSEEDED if UNSEEDED in by_seed else layout.seed
            confidence, valid, correct = by_seed[drawn]
            metrics = {seed: evaluate(c, v, right, layout.bins) for seed, (c, v, right) in by_seed.items()}
            means = {name: np.mean([of_seed[name] for of_seed in metrics.values()]) for name in CONFIDENCE_QUALITY}
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
    """Draw a row of panels for each data set and a column for each method; the small print below says what was
    measured, in case the figure is taken out of its document."""
    source = f"{layout.study} study, {layout.backbone_label}, step {layout.step}"
    seeded = numbers[numbers["seeds"] > 1]
    if len(seeded):
        seed, seeds = (int(seeded[name].iloc[0]) for name in ("seed", "seeds"))
        source = f"{source}; companions of seed {seed}, in brackets the mean of {counted(seeds, 'seed')}"
    panels = dict(iter(numbers.groupby(["dataset", "method"], sort=False)))
    methods, count = list(dict.fromkeys(numbers["method"])), len(layout.datasets)
    width = (TEXT_WIDTH - _LEFT) / len(methods)
    lines = _LINE * (width < _NARROW)
    tops = [0.36 + 2 * lines, *[0.16, 0.34 + lines] * count][:-1]
    scale = min(1, (PAGE_HEIGHT - _BELOW - sum(tops)) / (count * (_DIAGRAM + _HISTOGRAM)))
    figure, axes = panel_rows(
        [[""] * len(methods)] * 2 * count,
        [scale * _DIAGRAM, scale * _HISTOGRAM] * count,
        tops=tops,
        label="Confidence",
        handles=legend_entries(),
        source=source,
        left=_LEFT,
        between=_BETWEEN,
        columns=3,
    )
    for row, (dataset, above, below) in enumerate(zip(layout.datasets, axes[::2], axes[1::2], strict=True)):
        in_row = [panels[dataset.name, method] for method in methods]
        # a row without any valid confidence needs an axis, too
        most = max(1, *(panel["count"].max() for panel in in_row))
        for method, panel, diagram, histogram in zip(methods, in_row, above, below, strict=True):
            plot_reliability(diagram, histogram, panel, METHODS[method].colour)
            histogram.set_ylim(0, 1.05 * most)
            _panel_titles(diagram, histogram, panel.iloc[0], METHODS[method].label if row == 0 else None, width)
            for ax in (diagram, histogram):
                ax.tick_params(labelleft=method == methods[0])
        for ax, name in ((above[0], "Accuracy"), (below[0], "Count")):
            ax.set_ylabel(name)
            ax.yaxis.set_label_coords(-0.27 / (width - _BETWEEN), 0.5)  # aligned, whatever the numbers' width
        y = (above[0].get_position().y1 + below[0].get_position().y0) / 2
        figure.text(0.09 / TEXT_WIDTH, y, dataset.label, rotation=90, ha="center", va="center", fontweight="bold")
    return figure


def _panel_titles(diagram: Axes, histogram: Axes, panel: pd.Series, label: str | None, width: float) -> None:
    metrics = []
    for name in CONFIDENCE_QUALITY:
        of_seeds = f" ({metric_text(name, panel[f'{name}_of_seeds'])})" if panel["seeds"] > 1 else ""
        metrics.append(f"{name.upper()} {metric_text(name, panel[name])}{of_seeds}")
    narrow = width < _NARROW
    where = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "center", "va": "bottom"}
    text = {"fontsize": min(7, 72 * width / _TITLE), "linespacing": 1.1}
    diagram.annotate(("\n" if narrow else "   ").join(metrics), (0.5, 1), (0, 2), **where, **text)
    if label:
        above = 72 * (0.05 + _LINE * (1.2 + narrow))
        diagram.set_title(
            label.replace(" (", "\n(") if narrow else label, fontweight="bold", pad=above, linespacing=0.95
        )
    some_invalid = panel["n_valid"] < panel["n"]
    n = f"{panel['n_valid']:,} of {panel['n']:,} valid" if some_invalid else f"n = {panel['n']:,}"
    histogram.text(1, 1.04, n, transform=histogram.transAxes, ha="right", va="bottom", fontsize=6.5)
