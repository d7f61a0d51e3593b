"""Confidence quality by the pooled states that a companion reads (appendix F.2, tab:response_features)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from cocal.config.methods import METHODS
from cocal.errors import ContractError
from cocal.exhibits.layout import AggregationLayout
from cocal.exhibits.typesetting.grid import Grid
from cocal.exhibits.typesetting.pairs import only_pairs, pairs_block
from cocal.exhibits.typesetting.wording import UNDEFINED_VALUE, counted
from cocal.metrics.cells import policy_cell, read_cells
from cocal.metrics.cube import MEAN

if TYPE_CHECKING:
    import xarray as xr

_METHOD = "cocal-binary"
_POOLINGS = {"last": "Last token", "mean": "Response mean", "last+mean": "Last + mean"}


def prepare_token_aggregation(cubes: Sequence["xr.Dataset"], layout: AggregationLayout) -> pd.DataFrame:
    """The numbers of the table, one a row: binary supervision, final block, macro average, mean over the seeds.

    Args:
        cubes: metric cubes (cocal.metrics.cube) over layers and poolings, one a backbone, in any order.

    Returns:
        Columns backbone, pooling, metric (ece, auroc), value, lower, upper, n, those of
        `cocal.metrics.quality.RATES`, seed_sd.

    Raises:
        ContractError: if no cube is of a backbone, or it lacks a pooling at the layer named.
    """
    cells = []
    for backbone in layout.backbones:
        cube = next((cube for cube in cubes if backbone.name in cube["backbone"]), None)
        if cube is None:
            files = ", ".join(cube.encoding.get("source", "metrics") for cube in cubes)
            raise ContractError(f"{files}: nothing for backbone {backbone.name}; give its cube too")
        algorithm, step = policy_cell(_METHOD, layout.step)
        for pooling in _POOLINGS:
            cell = {
                "backbone": backbone.name,
                "algorithm": algorithm,
                "step": step,
                "layer": backbone.layer,
                "pooling": pooling,
                "dataset": layout.macro,
                "method": _METHOD,
                "seed": MEAN,
            }
            cells.append(read_cells(cube, {(backbone.name, pooling): cell}, ["backbone", "pooling"]))
    return only_pairs(pd.concat(cells))


def token_aggregation_grid(numbers: pd.DataFrame, layout: AggregationLayout, *, seeds: int, source: str) -> Grid:
    """The table; see `cocal.exhibits.main.main_grid` for the arguments."""
    sentences = [
        f"Confidence quality of {METHODS[_METHOD].label} with different token aggregations after {layout.step} "
        f"training steps, averaged over {counted(seeds, 'seed')} and {layout.macro_label}.",
        layout.caption,
        "Bold values indicate the best results.",
        UNDEFINED_VALUE if numbers["value"].isna().any() else "",
    ]
    block = pairs_block(
        numbers,
        corner="Feature",
        cases=("backbone", layout.backbones),
        variants=("pooling", _POOLINGS),
        kinds=("best",),
    )
    return Grid(
        title=f"Token aggregation, step {layout.step}",
        caption=" ".join(filter(None, sentences)),
        label="token_aggregation",
        source=source,
        blocks=(block,),
    )
