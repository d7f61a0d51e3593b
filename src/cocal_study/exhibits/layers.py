"""Confidence quality by the layer that the companions read (fig:layer_depth)."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from cocal.drawing.style import INK, Axes, Figure
from cocal_study.config.study import Study
from cocal_study.cubes.better import BETTER, CONFIDENCE_QUALITY
from cocal_study.cubes.cells import read_cells
from cocal_study.exhibits.base.exhibit import BackbonesLayout, FigureExhibit, macro_source, of_backbones
from cocal_study.exhibits.base.inputs import Cube, cube_of, mean_cell
from cocal_study.exhibits.drawing.curves import entry, metric_row, value_axis
from cocal_study.methods.cocal import BINARY
from cocal_study.planning.plan import MATHEMATICS, has_methods, layers_of
from cocal_study.planning.results import metrics_file

Layout = BackbonesLayout
BACKBONE_COLOURS = ("#5b3a1e", "#b98b4e")
"""Colours of the first and the second backbone: brown, which no method has, one dark and one light in greyscale."""
_FEWEST = 3
"""Least number of layers that make a curve."""
_LEVEL = {"linestyle": "none", "marker": "o", "markersize": 2.9, "markerfacecolor": "white", "markeredgewidth": 0.7}
_FINAL = {"linestyle": "none", "marker": "D", "markersize": 5, "markeredgecolor": "white", "markeredgewidth": 0.4}
_CURVE = {"linewidth": 1.1, "marker": ".", "markersize": 2.5}


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    """The figure of the first two backbones of three layers or more, where the study has CoCal (binary)."""
    layers = {name: layers_of(study, name) for name in study.backbones}
    deep = dict([(name, blocks) for name, blocks in layers.items() if len(blocks) >= _FEWEST][:2])
    if deep and has_methods(study, BINARY.name):
        yield FigureExhibit(
            title="Extraction layers",
            chapter="Analysis",
            position=85,
            caption="ECE and AUROC of companions by the block whose states they read (appendix F.3): last token and "
            "response mean, binary supervision. The band shows the standard deviation over the seeds. White dots mark "
            "all layers whose bootstrap interval over the questions overlaps that of the best layer; the data cannot "
            "tell which of them is best.",
            layout=of_backbones(study, deep),
            inputs={"metrics": [metrics_file(name, "-ablations") for name in deep]},
        )


def prepare(layout: Layout, metrics: Sequence[Cube]) -> pd.DataFrame:
    """Macro averages of companions that read one layer each: columns backbone, layer, those of
    `cocal_study.cubes.cells.read_cell`, final (bool: the backbone's last layer) and level_with_best (bool: its interval
    overlaps that of the backbone's best layer, itself included; all layers where there are no intervals)."""
    tables = []
    for backbone in layout.backbones:
        where = backbone.name, BINARY.name, layout.step, MATHEMATICS
        cells = {
            (backbone.name, layer): mean_cell(*where, layer=layer, pooling="last+mean") for layer in backbone.layers
        }
        table = read_cells(cube_of(backbone.name, metrics), cells, ["backbone", "layer"], CONFIDENCE_QUALITY)
        tables.append(table.assign(final=table["layer"] == backbone.layers[-1]))
    numbers = pd.concat(tables, ignore_index=True)
    cases = numbers.groupby(["backbone", "metric"], sort=False)
    return numbers.assign(level_with_best=pd.concat([_level_with_best(case) for _, case in cases]))


def _level_with_best(case: pd.DataFrame) -> pd.Series:
    """True for each layer of one backbone and metric that has a value and is not separable from the best one."""
    higher = BETTER[case["metric"].iloc[0]] == "higher"
    known = case["value"].notna()
    if not known.any():
        return known
    best = case.loc[case["value"].idxmax() if higher else case["value"].idxmin()]
    worse = case["upper"] < best["lower"] if higher else case["lower"] > best["upper"]
    return known & ~worse


def _plot_layers(ax: Axes, panel: pd.DataFrame) -> None:
    """Plot one metric against the block index: a curve per backbone, in a band of one standard deviation over seeds."""
    from matplotlib.ticker import MaxNLocator

    curves = panel.groupby("backbone", sort=False)
    for colour, (_, curve) in zip(BACKBONE_COLOURS, curves, strict=False):
        low, high = curve["value"] - curve["seed_sd"], curve["value"] + curve["seed_sd"]
        ax.fill_between(curve["layer"], low, high, color=colour, alpha=0.2, linewidth=0)
        for rows, look in ((curve, _CURVE), (curve[curve["final"]], _FINAL), (curve[curve["level_with_best"]], _LEVEL)):
            ax.plot(rows["layer"], rows["value"], color=colour, **look)
    ax.xaxis.set_major_locator(MaxNLocator(9, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
    value_axis(ax, panel)
    ax.margins(x=0.04, y=0.08)


def draw(numbers: pd.DataFrame, layout: Layout) -> Figure:
    """A panel of the ECE and one of the AUROC."""
    entries = [(colour, model.label, _CURVE) for colour, model in zip(BACKBONE_COLOURS, layout.backbones, strict=False)]
    entries += [(INK, "final layer", _FINAL), (INK, "within noise of the best", _LEVEL)]
    return metric_row(
        numbers,
        _plot_layers,
        height=1.5,
        label="Layer (zero-based block index)",
        handles=[entry(label, color=colour, **look) for colour, label, look in entries],
        source=f"{macro_source(layout)}; band: standard deviation over the seeds\n"
        "within noise: bootstrap interval over the questions overlaps the best layer's",
    )
