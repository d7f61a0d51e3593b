"""Every headline with the evaluation's own sampling and with a second one of the same policies: the paper's, and that
of rollouts (beyond the paper).

At temperature 1 a policy slips where it knows better, which its own token probabilities see by construction; at the
paper's temperature it answers nearly what it holds most likely.
"""

from collections.abc import Iterator, Mapping

import pandas as pd

from cocal.metrics.scores import WITHIN
from cocal.settings.base import Count, Name
from cocal_study.config.evaluation import GenerationSettings, SamplingSettings
from cocal_study.config.study import Study
from cocal_study.cubes.resamples import Resamples
from cocal_study.evidence.headlines import SECOND
from cocal_study.evidence.published import Published
from cocal_study.exhibits import verdict
from cocal_study.exhibits.base.exhibit import Labelled, TableExhibit
from cocal_study.exhibits.base.inputs import Cube, read_methods
from cocal_study.exhibits.typesetting.grid import Block, Grid, method_groups, metric_block, ranked_cells
from cocal_study.exhibits.typesetting.verdict import LEGEND, cells_of, claims_of, head_of, label_of
from cocal_study.exhibits.typesetting.wording import DOMAINS, said
from cocal_study.exhibits.verdict import verdict_inputs, verdict_layout
from cocal_study.planning import comparisons
from cocal_study.planning.plan import has_methods, macro_averages
from cocal_study.planning.results import metrics_file

_BESIDE = ("language_model_main", "language_model_ood")
"""Inputs of the verdict that come from a policy evaluated once, and are left out here."""
METRICS = ("accuracy", "mean_confidence", "ece", "auroc", WITHIN)
_PAPER = GenerationSettings()
"""The paper's sampling, which is the default."""


class Layout(verdict.Layout):
    backbone: Name
    step: Count
    domains: tuple[Name, ...]
    """Macro averages that are shown."""
    samplings: dict[Name, str]
    """The samplings in print, by their names in the column `sampling`: "own" and "second"."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    if study.second_sampling and has_methods(study, "cocal-binary"):
        main = study.main_backbone
        cubes = {"metrics": [metrics_file(main)], "second_metrics": [metrics_file(main, comparisons.SECOND)]}
        yield TableExhibit(
            title="Headlines by the sampling of the evaluation",
            chapter="Claims",
            position=0.7,
            caption="The headline claims with the paper's sampling and with that of rollouts, of the same policies and "
            "companions, and the numbers that they rest on.",
            layout=Layout(
                **dict(verdict_layout(study)),
                backbone=main,
                step=study.policy.steps,
                domains=tuple(macro_averages(study, main)),
                samplings={"own": _label(study.generation), "second": _label(study.second_sampling)},
            ),
            inputs={kind: files for kind, files in (verdict_inputs(study) | cubes).items() if kind not in _BESIDE},
        )


def _label(settings: GenerationSettings | SamplingSettings) -> str:
    names = ("temperature", "top_p", "top_k", "presence_penalty")
    of_paper = all(getattr(settings, name) == getattr(_PAPER, name) for name in names)
    return f"Temperature {settings.temperature:g}{' (the paper)' if of_paper else ''}"


def prepare(
    layout: Layout,
    metrics: Cube,
    second_metrics: Cube,
    resamples: Resamples,
    second: Resamples,
    published: Published,
    replicates_main: pd.DataFrame | None = None,
    replicates_ood: pd.DataFrame | None = None,
    replicates_sampling: pd.DataFrame | None = None,
    central_main: pd.DataFrame | None = None,
    central_sampling: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """The macro averages of the methods of the headlines under both samplings: the columns sampling ("own" or
    "second"), dataset, method, and those of `cocal_study.cubes.cells.read_cell`. The other arguments serve the
    headlines, which `grid` sets."""
    cubes = {"own": metrics, "second": second_metrics}
    read = {name: read_methods(cube, layout, layout.domains, layout.methods, METRICS) for name, cube in cubes.items()}
    return pd.concat(read, names=["sampling"]).reset_index(level=0).reset_index(drop=True)


def grid(
    numbers: pd.DataFrame,
    layout: Layout,
    *,
    metrics: Cube,
    second_metrics: Cube,
    resamples: Resamples,
    second: Resamples,
    published: Published,
    **gathered: pd.DataFrame,
) -> Grid:
    """Set the table: the headlines under both samplings, and below them the numbers of this study."""
    headlines = verdict.prepare(layout, resamples, published, second, **gathered)
    rows = [
        (claim, [(label_of(row), (*cells_of(row), *cells_of(row, SECOND, paper=False))) for row in of_claim])
        for claim, _, of_claim in claims_of(headlines)
    ]
    columns = ("95 %", "For it")
    heads = (
        ("", *(name for name in layout.samplings.values() for _ in range(3))),
        ("Paper", head_of(headlines), *columns, head_of(headlines, SECOND), *columns),
    )
    return Grid(
        title="Headlines by the sampling of the evaluation",
        caption=said(
            f"The headline claims of the paper with {layout.backbone_label} after {layout.step} training steps, whose "
            "policies answer the same questions twice.",
            layout.caption,
            LEGEND,
            "The numbers below them are those of this study alone; W-AUROC is the AUROC within questions, over all "
            "pairs of a right and a wrong response to one question.",
        ),
        blocks=(Block("Claim and comparison", heads, rows), *_numbers(numbers, layout)),
        size="footnotesize",
    )


def _numbers(numbers: pd.DataFrame, layout: Layout) -> Iterator[Block]:
    """A block of each macro average, with the samplings side by side."""
    cases = [Labelled(name=name, label=title) for name, title in layout.samplings.items()]
    for domain in layout.domains:
        shown = numbers[numbers["dataset"] == domain]
        cells = ranked_cells(shown, case="sampling")
        yield metric_block(DOMAINS[domain], cases, METRICS, method_groups(layout.methods), cells, optional=[WITHIN])
