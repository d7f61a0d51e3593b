"""Confidence before and after the response (appendix F.4, tab:pre_generation)."""

from collections.abc import Iterator, Mapping

import pandas as pd

from cocal.settings.base import Name
from cocal_study.config.study import Study
from cocal_study.cubes.better import CONFIDENCE_QUALITY
from cocal_study.exhibits.base.exhibit import Labelled, StepLayout, TableExhibit, of_main
from cocal_study.exhibits.base.inputs import Cube, read_methods, seeds_of
from cocal_study.exhibits.typesetting.grid import Grid, metric_block, ranked_cells
from cocal_study.exhibits.typesetting.wording import DOMAINS, UNDEFINED_VALUE, counted, said
from cocal_study.planning.plan import has_methods, macro_averages
from cocal_study.planning.results import metrics_file

_METHODS = {"cocal-pre-generation": "Pre-generation", "cocal-group": "Post-generation (group)"}


class Layout(StepLayout):
    """The contents of the table, with one pair of columns for the macro average of each domain."""

    domains: tuple[Name, ...]


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    if has_methods(study, *_METHODS):
        yield TableExhibit(
            title="Before and after generation",
            chapter="Analysis",
            position=80,
            caption="The confidence from the prompt alone beside that from the response, on the same responses "
            "(appendix F.4); the states of prompts at earlier steps are approximated by the next stage's checkpoint.",
            layout=Layout(**of_main(study), domains=tuple(macro_averages(study, study.main_backbone))),
            inputs={"metrics": [metrics_file(study.main_backbone)]},
        )


def prepare(layout: Layout, metrics: Cube) -> pd.DataFrame:
    """The numbers of the table, one per row, on the same responses, averaged over the seeds. The result has the columns
    domain, method, and those of `cocal_study.cubes.cells.read_cell`."""
    return read_methods(metrics, layout, layout.domains, _METHODS, CONFIDENCE_QUALITY, case="domain")


def grid(numbers: pd.DataFrame, layout: Layout, *, metrics: Cube) -> Grid:
    """Set the table, which marks no value."""
    domains = [Labelled(name=name, label=DOMAINS[name]) for name in layout.domains]
    averaged = f"of {domains[0].label}" if len(domains) == 1 else "of each domain"
    cells = ranked_cells(numbers, "domain", kinds=())
    return Grid(
        title=f"Confidence before and after generation, {layout.backbone_label}, step {layout.step}",
        caption=said(
            f"Pre- and post-generation confidence quality of CoCal using {layout.backbone_label} after {layout.step} "
            "training steps.",
            layout.caption,
            f"Results average {counted(seeds_of(metrics), 'seed')} and the evaluation sets {averaged}.",
            UNDEFINED_VALUE if numbers["value"].isna().any() else "",
        ),
        blocks=(metric_block("Setting", domains, CONFIDENCE_QUALITY, [("", _METHODS)], cells),),
    )
