"""Confidence quality of companions that learnt from the first rollout steps (fig:early_step_cocal)."""

from collections.abc import Iterator, Mapping
from functools import partial

from cocal_study.config.study import Study
from cocal_study.exhibits.base.exhibit import CurvesLayout, FigureExhibit, curves
from cocal_study.exhibits.drawing.curves import WHISKERS, draw_prefixes, of_replicates, prepare_prefixes
from cocal_study.planning.plan import has_methods
from cocal_study.planning.results import metrics_file

Layout, prepare, draw = CurvesLayout, prepare_prefixes, partial(draw_prefixes, "Rollout steps learnt from")
_METHODS = ("cocal-group", "cocal-binary")


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    """The figure of the main backbone, where the study has both of CoCal's companions."""
    if has_methods(study, *_METHODS):
        yield FigureExhibit(
            title="The first rollout steps",
            chapter="Analysis",
            position=63,
            caption="ECE and AUROC of companions that learnt only from the first few rollout steps, on the responses "
            "of the first stage's policy (appendix C.2). Their validation responses come from the same steps. "
            + WHISKERS,
            layout=curves(study, _METHODS, study.reports.early_steps, study.policy.stages[0]),
            inputs={"metrics": [metrics_file(study.main_backbone, "-sweep")], **of_replicates(study, "early_steps")},
        )
