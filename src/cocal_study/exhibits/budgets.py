"""Confidence quality of CoCal and PostCal at matched budgets (fig:rq4_cocal_vs_posthoc)."""

from collections.abc import Iterator, Mapping
from functools import partial

from cocal_study.config.study import Study
from cocal_study.exhibits.base.exhibit import CurvesLayout, FigureExhibit, curves
from cocal_study.exhibits.drawing.curves import WHISKERS, draw_prefixes, of_replicates, prepare_prefixes
from cocal_study.planning.plan import has_methods
from cocal_study.planning.results import metrics_file

Layout, prepare, draw = CurvesLayout, prepare_prefixes, partial(draw_prefixes, "Matched budget (rollout steps)")
_METHODS = ("cocal-binary", "postcal-binary")


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    """The figure of the main backbone, where the study has both methods."""
    if has_methods(study, *_METHODS):
        yield FigureExhibit(
            title="CoCal and PostCal at matched budgets",
            chapter="Analysis",
            position=61,
            caption="CoCal and PostCal learnt from equal budgets of rollout steps, with binary supervision, and are "
            "compared on the responses of the final policy (appendix E.1). The best pass of each method is chosen "
            "on a fixed pool: its responses of all steps to the held-out questions. " + WHISKERS,
            layout=curves(study, _METHODS, study.reports.budgets, study.policy.steps),
            inputs={"metrics": [metrics_file(study.main_backbone, "-budgets")], **of_replicates(study, "budgets")},
        )
