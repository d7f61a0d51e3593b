"""Confidence before and after the response (appendix F.4, tab:pre_generation)."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pandas as pd

from cocal.config.base import Count
from cocal.config.study import Study
from cocal.exhibits.base.exhibit import TableExhibit
from cocal.exhibits.base.inputs import seeds_of
from cocal.exhibits.base.layouts import FACTUAL, MATHEMATICS, BackboneLayout, Labelled, Labels, of_backbone
from cocal.exhibits.typesetting.grid import Grid
from cocal.exhibits.typesetting.pairs import only_pairs, pairs_block
from cocal.exhibits.typesetting.wording import UNDEFINED_VALUE, counted
from cocal.metrics.cells import policy_cell, read_cells
from cocal.metrics.cube import MEAN
from cocal.study.plan import has_methods
from cocal.study.results import metrics_file

if TYPE_CHECKING:
    import xarray as xr

_METHODS = {"cocal-pre-generation": "Pre-generation", "cocal-group": "Post-generation (group)"}
_DOMAINS = {"mathematics": (MATHEMATICS, "Mathematics"), "factual": (FACTUAL, "Factual QA")}


class Layout(BackboneLayout):
    """What the table shows, with one pair of columns per domain."""

    domains: Labels
    """Macro averages, in order."""
    step: Count
    """Policy step shown."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table of the main backbone, where the study has both companions that it compares."""
    if has_methods(study, *_METHODS):
        yield TableExhibit(
            name="pre_generation",
            title="Before and after generation",
            chapter="Analysis",
            position=80,
            caption="The confidence from the prompt alone is compared with the confidence from the response (appendix "
            "F.4), on the same responses. The pre-generation companion learns question-level accuracy from the last "
            "prompt token's state; states of earlier steps are approximated by the next stage's checkpoint.",
            layout=Layout(
                **of_backbone(study, study.main_backbone),
                domains=tuple(
                    Labelled(name=name, label=label)
                    for domain, (name, label) in _DOMAINS.items()
                    if study.evaluation_sets(domain)
                ),
                step=study.policy.steps,
            ),
            inputs={"metrics": metrics_file(study.main_backbone)},
            backbones=(study.main_backbone,),
        )


def prepare(layout: Layout, metrics: "xr.Dataset") -> pd.DataFrame:
    """The numbers of the table, one per row, on the same responses, averaged over the seeds.

    Args:
        layout: What the table shows.
        metrics: Metric cube (`cocal.metrics.cube`).

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
    return only_pairs(read_cells(metrics, cells, ["domain", "method"]))


def grid(numbers: pd.DataFrame, layout: Layout, *, source: str, metrics: "xr.Dataset") -> Grid:
    """The table of the prepared numbers; see `cocal.exhibits.typesetting.accuracy.grid` for the arguments."""
    domains = "of each domain" if len(layout.domains) > 1 else f"of {layout.domains[0].label}"
    sentences = [
        f"Pre- and post-generation confidence quality of CoCal using {layout.backbone_label} after {layout.step} "
        "training steps.",
        layout.caption,
        f"Results average {counted(seeds_of(metrics), 'seed')} and the evaluation sets {domains}.",
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
