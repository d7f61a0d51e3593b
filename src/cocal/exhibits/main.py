"""The main table: accuracy, mean confidence, ECE and AUROC of every method (table 1)."""

from collections.abc import Iterator, Mapping

from cocal.config.study import Study
from cocal.exhibits.base.exhibit import TableExhibit
from cocal.exhibits.typesetting import accuracy
from cocal.exhibits.typesetting.accuracy import CAPTION, accuracy_layout, main_methods
from cocal.study.results import metrics_file

Layout, prepare, grid = accuracy.AccuracyLayout, accuracy.prepare, accuracy.grid


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table of the main backbone at the end of training, where the study has a method that it shows."""
    if main_methods(study):
        yield TableExhibit(
            name="main",
            title=f"Main table, step {study.policy.steps}",
            chapter="Main results",
            position=10,
            caption="Accuracy, mean confidence, expected calibration error and AUROC of the methods on the "
            f"mathematical sets (the paper's table 1). {CAPTION}",
            layout=accuracy_layout(study, wrong, highlight="cocal-binary"),
            inputs={"metrics": metrics_file(study.main_backbone)},
            backbones=(study.main_backbone,),
        )
