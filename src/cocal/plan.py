"""What follows from a study: which checkpoints are evaluated, in which formats, with how many responses."""

from cocal.config.base import Count, Model, Name
from cocal.config.layout import CurvesLayout, Labelled, MainLayout, ReliabilityLayout
from cocal.config.study import Study
from cocal.estimators.registry import METHODS

MACRO_MATHEMATICS = "macro-mathematics"
"""Macro average over the mathematical evaluation sets."""


class SetPlan(Model):
    """Sampling of one question set under one prompt format."""

    samples: Count
    """Responses a question that are evaluated; the first of those sampled."""
    sampled: Count
    """Responses a question that are sampled: the evaluated ones, and the rest of the self-consistency pool."""
    max_response_length: Count
    p_true: bool = False
    """Whether the policy is asked if the evaluated responses are correct."""


class ResponsePlan(Model):
    """Everything that one job samples from a checkpoint under one prompt format."""

    sets: dict[Name, SetPlan]


def evaluated_cells(study: Study) -> list[tuple[str, int]]:
    """Checkpoints whose responses are evaluated, as (algorithm, step): the base policy at step 0, then the stages."""
    cells = [("base", 0), *((algorithm, step) for step in study.policy.stages for algorithm in study.policy.algorithms)]
    return [cell for cell in cells if methods_of(study, *cell)]


def methods_of(study: Study, algorithm: str, step: int) -> list[str]:
    """The study's methods that are evaluated on responses of this checkpoint.

    All of them at the end of training, `reports.stage_methods` at the earlier stages.
    """
    final = algorithm == "base" or step == study.policy.steps
    shown = study.estimators.methods if final else study.reports.stage_methods
    return [m for m in study.estimators.methods if METHODS[m].policy == algorithm and m in shown]


def protocols_of(study: Study, algorithm: str, step: int) -> list[str]:
    """Prompt formats that those methods need."""
    return list(dict.fromkeys(METHODS[m].protocol for m in methods_of(study, algorithm, step)))


def experiences_of(methods: list[str]) -> list[str]:
    """What the companions of these methods learnt from: "rollouts", "resampled", both or none."""
    return list(dict.fromkeys(METHODS[m].experience for m in methods if METHODS[m].experience))


def companion_steps(study: Study, experience: str) -> list[int]:
    """Rollout prefixes, or budgets of resampled responses, that companions are fitted on."""
    steps = {study.policy.steps}
    if experience == "rollouts":
        steps |= {*study.policy.stages, *study.reports.early_steps}
    return sorted(steps | {*study.reports.budgets})


def sweep_steps(study: Study, step: int) -> dict[str, list[int]]:
    """Companions that are compared on the responses of GRPO's `step`: experience -> rollout steps.

    Prefixes of the first stage on the first stage (figures/early_steps), budgets of both kinds of experience at
    the end (figures/budgets, figures/composition).
    """
    steps: dict[str, set[int]] = {}
    if step == study.policy.stages[0]:
        steps.setdefault("rollouts", set()).update(study.reports.early_steps)
    if step == study.policy.steps:
        for experience in experiences_of(list(study.estimators.methods)):
            steps.setdefault(experience, set()).update(study.reports.budgets)
    return {experience: sorted(found) for experience, found in steps.items()}


def sweep_methods(study: Study, step: int) -> list[str]:
    """Companion methods of that comparison."""
    return [m for m in study.estimators.methods if METHODS[m].experience in sweep_steps(study, step)]


def response_plan(study: Study, algorithm: str, step: int, protocol: str, datasets: list[str]) -> ResponsePlan:
    """Sampling of `datasets` from a checkpoint under one prompt format."""
    methods = [METHODS[m] for m in methods_of(study, algorithm, step) if METHODS[m].protocol == protocol]
    needs = {need for method in methods for need in method.needs}

    def plan(name: str) -> SetPlan:
        dataset = study.datasets[name]
        return SetPlan(
            samples=dataset.samples,
            sampled=study.generation.pool if "pool" in needs else dataset.samples,
            max_response_length=dataset.max_response_length,
            p_true="p-true" in needs,
        )

    return ResponsePlan(sets={name: plan(name) for name in datasets})


def evaluation_sets(study: Study, names: list[str]) -> dict[str, dict[str, int | str]]:
    """What the estimators need to know of each set: evaluated responses a question, and the domain."""
    return {n: {"samples": study.datasets[n].samples, "domain": study.datasets[n].domain} for n in names}


def main_layout(study: Study, step: int) -> MainLayout:
    """Layout of the main table, or of its counterpart at an earlier stage."""
    final = step == study.policy.steps
    return MainLayout(
        **_common(study),
        datasets=_labelled(study, study.evaluation_sets("mathematics")),
        methods=study.estimators.methods if final else study.reports.stage_methods,
        macro=MACRO_MATHEMATICS,
        label="main" if final else f"main_step{step}",
    )


def reliability_layout(study: Study, names: list[str]) -> ReliabilityLayout:
    """Layout of the reliability diagrams of some data sets."""
    return ReliabilityLayout(
        **_common(study),
        datasets=_labelled(study, names),
        methods=study.reports.reliability_methods,
        backbone=study.main_backbone,
        seed=study.reports.reliability_seed,
        bins=study.metrics.bins,
    )


def curves_layout(study: Study, methods: tuple[str, ...], steps: tuple[int, ...]) -> CurvesLayout:
    """Layout of the figures that follow the macro average over training steps."""
    return CurvesLayout(
        **_common(study), methods=methods, backbone=study.main_backbone, macro=MACRO_MATHEMATICS, steps=steps
    )


def _common(study: Study) -> dict[str, str]:
    label = study.backbones[study.main_backbone].label
    return {"study": study.study, "caption": study.caption, "backbone_label": label}


def _labelled(study: Study, names: list[str]) -> tuple[Labelled, ...]:
    return tuple(Labelled(name=name, label=study.datasets[name].label) for name in names)
