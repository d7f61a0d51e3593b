"""Confidence before and after the response (appendix F.4, tab:pre_generation)."""

from typing import TYPE_CHECKING

import pandas as pd

from cocal.exhibits.layout import PreGenerationLayout
from cocal.exhibits.typesetting.grid import Grid
from cocal.exhibits.typesetting.pairs import only_pairs, pairs_block
from cocal.exhibits.typesetting.wording import UNDEFINED_VALUE, counted
from cocal.metrics.cells import policy_cell, read_cells
from cocal.metrics.cube import MEAN

if TYPE_CHECKING:
    import xarray as xr

_METHODS = {"cocal-pre-generation": "Pre-generation", "cocal-group": "Post-generation (group)"}


def prepare_pre_generation(cube: "xr.Dataset", layout: PreGenerationLayout) -> pd.DataFrame:
    """The numbers of the table, one a row, on the same responses, averaged over the seeds.

    Args:
        cube: metric cube (cocal.metrics.cube).

    Returns:
        Columns domain, method, metric (ece, auroc), value, lower, upper, n, those of
        `cocal.metrics.quality.RATES`, seed_sd.

    Raises:
        ContractError: if the cube lacks a method or a domain.
    """
    cells = {}
    for domain in layout.domains:
        for method in _METHODS:
            algorithm, step = policy_cell(method, layout.step)
            cells[domain.name, method] = {
                "backbone": layout.backbone,
                "algorithm": algorithm,
                "step": step,
                "dataset": domain.name,
                "method": method,
                "seed": MEAN,
            }
    return only_pairs(read_cells(cube, cells, ["domain", "method"]))


def pre_generation_grid(numbers: pd.DataFrame, layout: PreGenerationLayout, *, seeds: int, source: str) -> Grid:
    """The table; see `cocal.exhibits.main.main_grid` for the arguments."""
    domains = "of each domain" if len(layout.domains) > 1 else f"of {layout.domains[0].label}"
    sentences = [
        f"Pre- and post-generation confidence quality of CoCal using {layout.backbone_label} after {layout.step} "
        "training steps.",
        layout.caption,
        f"Results average {counted(seeds, 'seed')} and the evaluation sets {domains}.",
        UNDEFINED_VALUE if numbers["value"].isna().any() else "",
    ]
    block = pairs_block(numbers, corner="Setting", cases=("domain", layout.domains), variants=("method", _METHODS))
    return Grid(
        title=f"Confidence before and after generation, {layout.backbone_label}, step {layout.step}",
        caption=" ".join(filter(None, sentences)),
        label="pre_generation",
        source=source,
        blocks=(block,),
    )
