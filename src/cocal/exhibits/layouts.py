"""What each table and figure of a study shows."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from cocal.config.methods import METHODS
from cocal.config.study import Study
from cocal.exhibits.layout import (
    AggregationBackbone,
    AggregationLayout,
    CostLayout,
    CurvesLayout,
    Labelled,
    LayeredBackbone,
    LayersLayout,
    MainLayout,
    PreGenerationLayout,
    ReliabilityLayout,
    TimesLayout,
)
from cocal.study.plan import available_methods, layers_of

MATHEMATICS, FACTUAL = "macro-mathematics", "macro-factual"
"""Macro averages, as `cocal.study.plan.macro_averages` names them."""


_NONE: Mapping[str, int] = MappingProxyType({})
_PAIR = ("cocal-binary", "postcal-binary")
_NEEDED = {
    "cost": ("postcal-group", "cocal-group", "cocal-pre-generation"),
    "token_aggregation": ("cocal-binary",),
    "pre_generation": ("cocal-pre-generation", "cocal-group"),
    "time_to_confidence": ("cocal-pre-generation", "cocal-group"),
    "cross_iteration": ("cocal-binary",),
    "early_steps": ("cocal-group", "cocal-binary"),
    "budgets": _PAIR,
    "composition": _PAIR,
    "layers": ("cocal-binary",),
}


def shown_by(study: Study, name: str) -> bool:
    """Whether a study has the methods that a table or figure compares; one of a free choice needs any of it."""
    if name == "cost" and _untimed(study):
        return False
    if name == "cross_policy":
        needed = cross_policy_methods(study)
        return bool(needed) and set(needed) <= set(study.estimators.methods)
    chosen = _chosen(study, name)
    return bool(chosen) if chosen is not None else set(_NEEDED.get(name, ())) <= set(available_methods(study))


def _chosen(study: Study, name: str) -> Sequence[str] | None:
    """The methods of a table or figure that shows those of a free choice that the study has; None for any other."""
    if name in ("main", "ood", "scale"):
        return _main_methods(study)
    if name.startswith("main_step") or name == "training_dynamics":
        return stage_methods(study)
    if name.startswith("reliability"):
        return reliability_methods(study)
    return None


def _untimed(study: Study) -> bool:
    """Whether the main backbone's policy was trained elsewhere, for nobody knows how long."""
    imported = study.backbones[study.main_backbone].imported.get("grpo")
    return imported is not None and imported.seconds is None


def main_layout(study: Study, step: int, wrong: Mapping[str, int] = _NONE) -> MainLayout:
    """tables/main, or its counterpart at an earlier stage.

    Args:
        wrong: by data set, how many of its rows are known to be wrong (cocal.questions.registry.known_wrong).
    """
    final = step == study.policy.steps
    return MainLayout(
        **_backbone(study, study.main_backbone),
        quality=study.quality,
        datasets=_labelled(study, "mathematics"),
        methods=_main_methods(study) if final else stage_methods(study),
        macro=MATHEMATICS,
        label="main" if final else f"main_step{step}",
        highlight="cocal-binary" if final else None,
        remark=" ".join(_wrong_rows(study, "mathematics", wrong)),
    )


def ood_layout(study: Study, wrong: Mapping[str, int] = _NONE) -> MainLayout:
    """tables/ood: factual questions."""
    return MainLayout(
        **_backbone(study, study.main_backbone),
        quality=study.quality,
        datasets=_labelled(study, "factual"),
        methods=_main_methods(study),
        macro=FACTUAL,
        label="ood",
        highlight="cocal-binary",
        subject="Math-to-factual transfer: accuracy and confidence quality",
        sets="factual set",
        remark=" ".join(
            [
                f"All companions learnt from mathematics alone. Answers are judged by {study.judge.label}.",
                *_wrong_rows(study, "factual", wrong),
            ]
        ),
    )


def scale_layout(study: Study, backbone: str, wrong: Mapping[str, int] = _NONE) -> MainLayout:
    """tables/scale: the main table of another backbone."""
    return MainLayout(
        **_backbone(study, backbone),
        quality=study.quality,
        datasets=_labelled(study, "mathematics"),
        methods=_main_methods(study),
        macro=MATHEMATICS,
        label="scale",
        remark=" ".join(_wrong_rows(study, "mathematics", wrong)),
    )


def token_aggregation_layout(study: Study) -> AggregationLayout:
    """tables/token_aggregation: all backbones."""
    return AggregationLayout(
        study=study.study,
        caption=study.caption,
        backbones=tuple(
            AggregationBackbone(name=name, label=backbone.label, layer=layers_of(study, name)[-1])
            for name, backbone in study.backbones.items()
        ),
        macro=MATHEMATICS,
        step=study.policy.steps,
    )


def pre_generation_layout(study: Study) -> PreGenerationLayout:
    """tables/pre_generation: both domains."""
    labels = {"mathematics": (MATHEMATICS, "Mathematics"), "factual": (FACTUAL, "Factual QA")}
    return PreGenerationLayout(
        **_backbone(study, study.main_backbone),
        backbone=study.main_backbone,
        domains=tuple(
            Labelled(name=name, label=label)
            for domain, (name, label) in labels.items()
            if study.evaluation_sets(domain)
        ),
        step=study.policy.steps,
    )


def times_layout(study: Study) -> TimesLayout:
    """tables/time_to_confidence: mathematical sets."""
    return TimesLayout(
        **_backbone(study, study.main_backbone),
        datasets=_labelled(study, "mathematics"),
        step=study.policy.steps,
    )


def cost_layout(study: Study, generated: str) -> CostLayout:
    """tables/cost; `generated` is the set whose questions were answered to time inference."""
    return CostLayout(
        **_backbone(study, study.main_backbone),
        generation_label=study.datasets[generated].label,
        step=study.policy.steps,
    )


def reliability_layout(study: Study, names: Sequence[str]) -> ReliabilityLayout:
    """figures/reliability and reliability_all: diagrams of some data sets."""
    return ReliabilityLayout(
        **_backbone(study, study.main_backbone),
        datasets=tuple(Labelled(name=name, label=study.datasets[name].label) for name in names),
        methods=reliability_methods(study),
        backbone=study.main_backbone,
        seed=study.reports.reliability_seed,
        bins=study.metrics.bins,
    )


def curves_layout(study: Study, methods: Sequence[str], steps: Sequence[int]) -> CurvesLayout:
    """The figures that show the macro average over training steps."""
    return CurvesLayout(
        **_backbone(study, study.main_backbone),
        methods=tuple(methods),
        backbone=study.main_backbone,
        macro=MATHEMATICS,
        steps=tuple(steps),
    )


def training_dynamics_layout(study: Study) -> CurvesLayout:
    """figures/training_dynamics: the methods of every stage."""
    return curves_layout(study, stage_methods(study), study.policy.stages)


def cross_policy_layout(study: Study) -> CurvesLayout:
    """figures/cross_policy: the coupled methods beside CoCal's companions on their policies."""
    return curves_layout(study, cross_policy_methods(study), study.policy.stages)


def cross_policy_methods(study: Study) -> list[str]:
    """Each coupled method, followed by CoCal's companion on its policy."""
    coupled = [algorithm for algorithm in ("rlcr", "dcpo") if algorithm in study.policy.algorithms]
    return [name for algorithm in coupled for name in (algorithm, f"cocal-on-{algorithm}")]


def stage_methods(study: Study) -> tuple[str, ...]:
    """`reports.stage_methods`, those that the study has."""
    available = available_methods(study)
    return tuple(m for m in study.reports.stage_methods if m in available)


def reliability_methods(study: Study) -> tuple[str, ...]:
    """`reports.reliability_methods`, those that the study has."""
    available = available_methods(study)
    return tuple(m for m in study.reports.reliability_methods if m in available)


def layers_layout(study: Study) -> LayersLayout:
    """figures/layers: all backbones."""
    return LayersLayout(
        study=study.study,
        caption=study.caption,
        backbones=tuple(
            LayeredBackbone(name=name, label=backbone.label, layers=tuple(layers_of(study, name)))
            for name, backbone in study.backbones.items()
        ),
        macro=MATHEMATICS,
        step=study.policy.steps,
    )


def _wrong_rows(study: Study, domain: str, wrong: Mapping[str, int]) -> list[str]:
    """Sentences of a caption about rows of the sets that are known to be wrong; none if there are no such rows."""
    shown = {name: study.datasets[name] for name in study.evaluation_sets(domain) if name in wrong}
    sentences = []
    for mended, fate in ((False, "kept as distributed"), (True, "corrected")):
        sets = [f"{d.label} ({wrong[n]} of {d.size})" for n, d in shown.items() if d.source.corrections == mended]
        if sets:
            sentences.append(f"Questions or answers known to be wrong are {fate}: {', '.join(sets)}.")
    return sentences


def _main_methods(study: Study) -> tuple[str, ...]:
    return tuple(m for m in available_methods(study) if METHODS[m].group is not None)


def _backbone(study: Study, name: str) -> dict[str, str]:
    return {"study": study.study, "caption": study.caption, "backbone_label": study.backbones[name].label}


def _labelled(study: Study, domain: str) -> tuple[Labelled, ...]:
    return tuple(Labelled(name=name, label=study.datasets[name].label) for name in study.evaluation_sets(domain))
