"""Confidence quality of companions that learnt from the first rollout steps (fig:early_step_cocal)."""

from collections.abc import Iterator, Mapping
from functools import partial

from cocal_study.config.study import Study
from cocal_study.exhibits import budgets
from cocal_study.exhibits.base.exhibit import FigureExhibit, curves
from cocal_study.planning.plan import has_methods

Layout, prepare, draw = budgets.Layout, budgets.prepare, partial(budgets.draw, label="Rollout steps learnt from")
_METHODS = ("cocal-group", "cocal-binary")


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[FigureExhibit]:
    if has_methods(study, *_METHODS):
        yield FigureExhibit(
            title="The first rollout steps",
            chapter="Analysis",
            position=63,
            caption="ECE and AUROC of companions that learnt only from the first few rollout steps, on the responses "
            "of the first stage's policy (appendix C.2). Their validation responses come from the same steps. "
            + budgets.WHISKERS,
            layout=curves(study, _METHODS, study.reports.early_steps, study.policy.stages[0]),
            inputs=budgets.inputs_of(study, "early_steps", "-sweep"),
        )
