"""Accuracy, confidence, calibration and discrimination over the stages of training (fig:training_dynamics)."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pandas as pd

from cocal.config.study import Study
from cocal.exhibits.base.exhibit import FigureExhibit
from cocal.exhibits.base.layouts import CurvesLayout, curves
from cocal.exhibits.drawing.curves import TITLES, method_handles, panel_row
from cocal.exhibits.drawing.stages import plot_stages, prepare_stages
from cocal.exhibits.typesetting.accuracy import stage_methods
from cocal.metrics.calibration import METRICS
from cocal.study.results import metrics_file

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

Layout = CurvesLayout


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    """The figure of the main backbone, where the study has a method that is evaluated at every stage."""
    if stage_methods(study):
        yield FigureExhibit(
            name="training_dynamics",
            title="Training dynamics",
            chapter="Main results",
            position=13,
            caption="Accuracy, mean confidence, ECE and AUROC at the stages of policy training, as macro averages over "
            "the mathematical sets. RLCR and DCPO are policies of their own; the CoCal variants share the accuracy of "
            "the GRPO policy. The whiskers show the bootstrap interval over the questions.",
            layout=curves(study, stage_methods(study), study.policy.stages),
            inputs={"metrics": metrics_file(study.main_backbone)},
            backbones=(study.main_backbone,),
        )


def prepare(layout: Layout, metrics: "xr.Dataset") -> pd.DataFrame:
    """All four metrics; see `cocal.exhibits.drawing.stages.prepare_stages`."""
    return prepare_stages(layout, metrics, METRICS)


def draw(numbers: pd.DataFrame, layout: Layout) -> "Figure":
    """Draw one panel per metric."""
    figure, panels = panel_row(
        [TITLES[metric] for metric in METRICS],
        height=1.25,
        label="Training step",
        handles=method_handles(list(dict.fromkeys(numbers["method"]))),
        source=f"{layout.source}; whiskers: bootstrap interval over the questions",
    )
    for ax, metric in zip(panels, METRICS, strict=True):
        plot_stages(ax, numbers[numbers["metric"] == metric])
    return figure
