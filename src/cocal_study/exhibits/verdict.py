"""The paper's headline claims beside what the replicates and a language model give (beyond the paper).

The claims and the words that numbers give them are those of `cocal_study.evidence.headlines`. The word follows the
evaluation's own sampling; where the second sampling gives another one, it stands beside it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pandas as pd

from cocal_study.config.methods import MethodName
from cocal_study.config.study import Study
from cocal_study.cubes.resamples import MAIN, Resamples
from cocal_study.evidence.headlines import HEADLINES, KEYS, Sampled, headline_rows, values_of
from cocal_study.evidence.published import Published
from cocal_study.evidence.sources import StudyScope
from cocal_study.evidence.verdicts import completed
from cocal_study.exhibits.base.exhibit import OF_TABLES, TableExhibit, origin
from cocal_study.exhibits.base.ledger import ClaimsLayout, readers
from cocal_study.exhibits.typesetting.grid import Block, Grid
from cocal_study.exhibits.typesetting.verdict import (
    LEGEND,
    RANKING,
    WORDS,
    claims_of,
    compared_of,
    head_of,
    label_of,
    ranking_of,
)
from cocal_study.exhibits.typesetting.wording import SUBJECTS
from cocal_study.planning import comparisons
from cocal_study.planning.plan import MATHEMATICS, available_methods, has_methods
from cocal_study.planning.results import resamples_file


class Layout(ClaimsLayout):
    methods: tuple[MethodName, ...]
    """The methods of the study; claims about others are left out."""
    temperature: float | None = None
    """Temperature of the second sampling, if there is one."""


def verdict_layout(study: Study) -> Layout:
    """The layout of both tables of headlines."""
    compared = {name for pairs in HEADLINES.values() for pair in pairs for name in pair[:2]}
    # only the main backbone and the stages stand for those of the paper here
    nothing = {"early_steps": (), "budgets": (), "datasets": {}, "layers": {}}
    return Layout(
        **origin(study),
        labels=(study.backbones[study.main_backbone].label,),
        scope=StudyScope(backbones=(study.main_backbone,), stages=study.policy.stages, **nothing),
        methods=tuple(name for name in available_methods(study) if name in compared),
        temperature=study.second_sampling.temperature if study.second_sampling else None,
    )


def verdict_inputs(study: Study) -> dict[str, list[str]]:
    """The files from which both tables of headlines are made, by kind."""
    inputs = {"resamples": [resamples_file(study.main_backbone)], "published": ["config/paper"]}
    if study.second_sampling:
        inputs["second"] = [resamples_file(study.main_backbone, comparisons.SECOND)]
    for kind in OF_TABLES:
        gathered, _, table = kind.rpartition("_")
        if (folder := getattr(study.reports, gathered)) and (table != "sampling" or study.second_sampling):
            inputs[kind] = [f"{folder}/tables/{table}.csv"]
    return inputs


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    if has_methods(study, "cocal-binary"):
        yield TableExhibit(
            title="Does the paper reproduce?",
            chapter="Claims",
            position=0.5,
            caption="Headline claims of the paper, by its own differences, by those of this study or of its "
            "replicates, and by those of a language model.",
            layout=verdict_layout(study),
            inputs=verdict_inputs(study),
        )


def prepare(
    layout: Layout,
    resamples: Resamples,
    published: Published,
    second: Resamples | None = None,
    replicates_main: pd.DataFrame | None = None,
    replicates_ood: pd.DataFrame | None = None,
    replicates_sampling: pd.DataFrame | None = None,
    central_main: pd.DataFrame | None = None,
    central_sampling: pd.DataFrame | None = None,
    language_model_main: pd.DataFrame | None = None,
    language_model_ood: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """The columns of `cocal_study.evidence.headlines.headline_rows`."""
    paper, study = readers(layout, [resamples], published)
    of_own = [_of(frame, "own") for frame in (central_sampling, replicates_sampling)]
    tables = [_completed(central_main, replicates_main), replicates_main, _completed(*of_own), replicates_ood]
    ours = Sampled(study, [values_of(frame, "replicate_") for frame in tables])
    again = None
    if second is not None:
        of_second = [_of(frame, "second") for frame in (central_sampling, replicates_sampling)]
        tables = [_completed(*of_second), of_second[1]]
        _, reader = readers(layout, [replace(second, comparison=MAIN)], published)
        again = Sampled(reader, [values_of(frame, "replicate_") for frame in tables])
    other = [values_of(frame, "value") for frame in (language_model_main, language_model_ood)]
    return headline_rows(layout.methods, paper, ours, again, other, layout.temperature)


def _completed(central: pd.DataFrame | None, whole: pd.DataFrame | None) -> pd.DataFrame | None:
    """Numbers of the central comparison, completed by those of the whole study's replicates that it lacks."""
    return central if central is None or whole is None else completed(central, whole, KEYS, "metric")


def _of(sampling: pd.DataFrame | None, name: str) -> pd.DataFrame | None:
    """The rows of one sampling in a gathered tables/sampling.csv, in the form of a main table."""
    return None if sampling is None else sampling[sampling["sampling"] == name].drop(columns="sampling")


def grid(numbers: pd.DataFrame, layout: Layout, **_: object) -> Grid:
    """Set the table, with a group of rows for each claim and its verdict above them."""
    groups = [
        (f"{claim}: {word}", [(label_of(row), (ranking_of(row), *compared_of(row))) for row in rows])
        for claim, word, rows in claims_of(numbers)
    ]
    return Grid(
        title="Does the paper reproduce?",
        caption=f"The paper's headline claims, on {SUBJECTS[MATHEMATICS]} unless said. {LEGEND} LM: a study of a "
        f"pre-trained language model. {WORDS}",
        blocks=(
            Block(
                "Claim and comparison", [(RANKING, "Paper", head_of(numbers), "95 %", "For it", "LM")], groups, width=1
            ),
        ),
        size="footnotesize",
    )
