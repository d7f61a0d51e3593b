"""Confidence quality by the pooled states that a companion reads (appendix F.2, tab:response_features)."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from cocal_study.config.study import Study
from cocal_study.cubes.better import CONFIDENCE_QUALITY
from cocal_study.cubes.cells import read_cells
from cocal_study.exhibits.base.exhibit import BackbonesLayout, TableExhibit, of_backbones
from cocal_study.exhibits.base.inputs import Cube, cube_of, mean_cell, seeds_of
from cocal_study.exhibits.typesetting.grid import Grid, metric_block, ranked_cells
from cocal_study.exhibits.typesetting.wording import UNDEFINED_VALUE, counted, said
from cocal_study.methods.cocal import BINARY
from cocal_study.planning.plan import MATHEMATICS, has_methods, layers_of
from cocal_study.planning.results import metrics_file

Layout = BackbonesLayout
_POOLINGS = {"last": "Last token", "mean": "Response mean", "last+mean": "Last + mean"}


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    if has_methods(study, BINARY.name):
        yield TableExhibit(
            title="Token aggregation",
            chapter="Analysis",
            position=70,
            caption="Companions with binary supervision that read the last token's state of the final block, the mean "
            "over the response, or both (appendix F.2).",
            layout=of_backbones(study, {name: layers_of(study, name)[-1:] for name in study.backbones}),
            inputs={"metrics": [metrics_file(name, "-ablations") for name in study.backbones]},
        )


def prepare(layout: Layout, metrics: Sequence[Cube]) -> pd.DataFrame:
    """The numbers of the table, one per row: binary supervision, final block, macro average, mean over the seeds. The
    result has the columns backbone, pooling, and those of `cocal_study.cubes.cells.read_cell`."""
    tables = []
    for backbone in layout.backbones:
        where = (backbone.name, BINARY.name, layout.step, MATHEMATICS)
        cells = {
            (backbone.name, pooling): mean_cell(*where, layer=backbone.layers[-1], pooling=pooling)
            for pooling in _POOLINGS
        }
        tables.append(read_cells(cube_of(backbone.name, metrics), cells, ["backbone", "pooling"], CONFIDENCE_QUALITY))
    return pd.concat(tables, ignore_index=True)


def grid(numbers: pd.DataFrame, layout: Layout, *, metrics: Sequence[Cube]) -> Grid:
    """Set the table; the best value of a column is bold."""
    cells = ranked_cells(numbers, "backbone", "pooling", kinds=("best",))
    return Grid(
        title=f"Token aggregation, step {layout.step}",
        caption=said(
            f"Confidence quality of {BINARY.label} with different token aggregations after {layout.step} "
            f"training steps, averaged over {counted(seeds_of(metrics[0]), 'seed')} and the mathematical evaluation "
            "sets.",
            layout.caption,
            "Bold values indicate the best results.",
            UNDEFINED_VALUE if numbers["value"].isna().any() else "",
        ),
        blocks=(metric_block("Feature", layout.backbones, CONFIDENCE_QUALITY, [("", _POOLINGS)], cells),),
    )
