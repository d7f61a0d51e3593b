"""GRPO's companions on the policies of coupled methods, beside those methods' own confidence
(fig:rq3_policy_transfer).

Both are compared on the responses for which both have a valid confidence, so the numbers come from a cube of
`cocal metrics --common-responses`.
"""

from collections.abc import Iterator, Mapping

import pandas as pd

from cocal.drawing.style import Figure
from cocal_study.config.study import Study
from cocal_study.cubes.better import CONFIDENCE_QUALITY
from cocal_study.exhibits.base.exhibit import CurvesLayout, FigureExhibit, curves
from cocal_study.exhibits.base.inputs import Cube
from cocal_study.exhibits.drawing.curves import HALF_WIDTH, draw_stages, read_curves
from cocal_study.planning.results import metrics_file

Layout = CurvesLayout


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    """The figure of the main backbone, where the study has coupled methods and CoCal's companions on their policies."""
    coupled = [algorithm for algorithm in ("rlcr", "dcpo") if algorithm in study.policy.algorithms]
    methods = [name for algorithm in coupled for name in (algorithm, f"cocal-on-{algorithm}")]
    if methods and set(methods) <= set(study.methods):
        yield FigureExhibit(
            title="Transfer to RLCR and DCPO",
            chapter="Transfer",
            position=32,
            caption="The confidence that RLCR and DCPO policies state themselves, and that of GRPO's companion of the "
            "matched stage on the same responses. For DCPO the companion reads the whole response, for RLCR only what "
            "stands before the first reason tag. Both are compared on the responses for which both have a valid "
            "confidence, so that RLCR and DCPO may differ a little from the main table. The whiskers show the "
            "bootstrap interval over the questions.",
            layout=curves(study, methods, study.policy.stages),
            inputs={"metrics": [metrics_file(study.main_backbone, "-cross-policy")]},
        )


def prepare(layout: Layout, metrics: Cube) -> pd.DataFrame:
    """ECE and AUROC; see `cocal_study.exhibits.drawing.curves.read_curves`."""
    return read_curves(layout, metrics, CONFIDENCE_QUALITY)


def draw(numbers: pd.DataFrame, layout: Layout) -> Figure:
    """A panel of the ECE and one of the AUROC."""
    about = "\nresponses of each policy with two valid confidences\n"
    return draw_stages(numbers, layout, about=about, height=0.8, width=HALF_WIDTH, columns=2)
