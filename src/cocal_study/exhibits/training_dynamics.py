"""Accuracy, confidence, calibration and discrimination over the stages of training (fig:training_dynamics)."""

from collections.abc import Iterator, Mapping

import pandas as pd

from cocal.drawing.style import Figure
from cocal.metrics.calibration import METRICS
from cocal_study.config.study import Study
from cocal_study.exhibits.base.exhibit import CurvesLayout, FigureExhibit, curves
from cocal_study.exhibits.base.inputs import Cube
from cocal_study.exhibits.drawing.curves import draw_stages, read_curves
from cocal_study.exhibits.main import stage_methods
from cocal_study.planning.results import metrics_file

Layout = CurvesLayout


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    if stage_methods(study):
        yield FigureExhibit(
            title="Training dynamics",
            chapter="Main results",
            position=13,
            caption="Accuracy, mean confidence, ECE and AUROC at the stages of policy training, as macro averages over "
            "the mathematical sets. RLCR and DCPO are policies of their own; the CoCal variants share the accuracy of "
            "the GRPO policy. The whiskers show the bootstrap interval over the questions.",
            layout=curves(study, stage_methods(study), study.policy.stages),
            inputs={"metrics": [metrics_file(study.main_backbone)]},
        )


def prepare(layout: Layout, metrics: Cube) -> pd.DataFrame:
    """All four metrics; see `cocal_study.exhibits.drawing.curves.read_curves`."""
    return read_curves(layout, metrics, METRICS)


def draw(numbers: pd.DataFrame, layout: Layout) -> Figure:
    return draw_stages(numbers, layout, height=1.25)
