"""What follows from a study: which checkpoints are evaluated, in which formats, with how many responses."""

from cocal.config.base import Count, Model, Name
from cocal.config.layout import Labelled, MainLayout, ReliabilityLayout
from cocal.config.study import Study
from cocal.estimators.registry import METHODS


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


def checkpoint_step(study: Study, algorithm: str) -> int:
    """Step of the checkpoint that the main table evaluates: 0 for the base policy."""
    return 0 if algorithm == "base" else study.policy.steps


def evaluated_algorithms(study: Study) -> list[str]:
    """Policies that the study's methods need, "base" included, in the order of the registry."""
    return list(dict.fromkeys(m.policy for m in METHODS.values() if m.name in study.estimators.methods))


def methods_of(study: Study, algorithm: str) -> list[str]:
    """The study's methods that are evaluated on responses of this policy."""
    return [m for m in study.estimators.methods if METHODS[m].policy == algorithm]


def protocols_of(study: Study, algorithm: str) -> list[str]:
    """Prompt formats that those methods need."""
    return list(dict.fromkeys(METHODS[m].protocol for m in methods_of(study, algorithm)))


def uses_companion(study: Study, algorithm: str) -> bool:
    """Whether a companion scores responses of this policy."""
    return any("features" in METHODS[m].needs for m in methods_of(study, algorithm))


def response_plan(study: Study, algorithm: str, protocol: str, datasets: list[str]) -> ResponsePlan:
    """Sampling of `datasets` from a checkpoint of this policy under one prompt format."""
    methods = [METHODS[m] for m in methods_of(study, algorithm) if METHODS[m].protocol == protocol]
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


def main_layout(study: Study) -> MainLayout:
    """Layout of the main table."""
    names = study.evaluation_sets("mathematics")
    return MainLayout(
        study=study.study,
        caption=study.caption,
        backbone_label=study.backbones[study.main_backbone].label,
        datasets=tuple(Labelled(name=name, label=study.datasets[name].label) for name in names),
        methods=study.estimators.methods,
        macro="macro-mathematics",
    )


def reliability_layout(study: Study) -> ReliabilityLayout:
    """Layout of the reliability diagram of one data set."""
    name = study.reports.reliability_dataset
    return ReliabilityLayout(
        study=study.study,
        caption=study.caption,
        backbone_label=study.backbones[study.main_backbone].label,
        datasets=(Labelled(name=name, label=study.datasets[name].label),),
        methods=study.reports.reliability_methods,
        backbone=study.main_backbone,
        seed=study.reports.reliability_seed,
        bins=study.metrics.bins,
    )


def evaluation_sets(study: Study, names: list[str]) -> dict[str, dict[str, int | str]]:
    """What the estimators need to know of each set: evaluated responses a question, and the domain."""
    return {n: {"samples": study.datasets[n].samples, "domain": study.datasets[n].domain} for n in names}
