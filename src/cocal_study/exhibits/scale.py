"""The main table of the second backbone (appendix F.1)."""

from collections.abc import Iterator, Mapping

from cocal_study.config.study import Study
from cocal_study.exhibits import main
from cocal_study.exhibits.base.exhibit import TableExhibit
from cocal_study.exhibits.main import accuracy_layout, main_methods
from cocal_study.planning.results import metrics_file

Layout, prepare, grid = main.Layout, main.prepare, main.grid


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table of the second backbone, where the study has one, and a method that the table shows."""
    second = next((name for name in study.backbones if name != study.main_backbone), None)
    if second and main_methods(study):
        yield TableExhibit(
            title=f"Main table of {study.backbones[second].label}",
            chapter="Main results",
            position=60,
            caption="The main table of the second backbone (appendix F.1), which, unlike the paper's, also shows "
            "PostCal.",
            layout=accuracy_layout(study, wrong, backbone=second),
            inputs={"metrics": [metrics_file(second)]},
        )
