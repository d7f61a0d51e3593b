"""The main table at the earlier stages of training (appendix C.1)."""

from collections.abc import Iterator, Mapping

from cocal_study.config.study import Study
from cocal_study.exhibits import main
from cocal_study.exhibits.base.exhibit import TableExhibit
from cocal_study.exhibits.main import accuracy_layout, stage_methods
from cocal_study.planning.results import metrics_file

Layout, prepare, grid = main.Layout, main.prepare, main.grid


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """One table for each stage before the last, where the study has a method that is evaluated at every stage."""
    for place, step in enumerate(study.policy.stages[:-1] if stage_methods(study) else ()):
        yield TableExhibit(
            name=f"main_step{step}",
            title=f"Main table, step {step}",
            chapter="Main results",
            position=50 + place / 100,
            caption="The main table at an earlier stage of training (the tables of appendix C.1).",
            layout=accuracy_layout(study, wrong, step=step, methods=stage_methods(study)),
            inputs={"metrics": [metrics_file(study.main_backbone)]},
        )
