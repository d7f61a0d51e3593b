"""Companions that a study fits: from stored rollouts, a job for each variant and backbone, and online ones."""

from typing import Any

from cocal_study.config.study import Study
from cocal_study.planning import plan
from cocal_study.planning.baselines import ONE_LAYER
from cocal_study.planning.results import COMPANIONS, companion_folder, rollouts_folder, states_file, variant_folder

ABLATIONS = "ablations"
VARIANTS = (*(COMPANIONS[kind] for kind in ("rollouts", "resampled", "prompts")), ABLATIONS, ONE_LAYER)
"""Names of the variants, which are those of their folders."""


def variant_of(study: Study, backbone: str, name: str) -> dict[str, Any]:
    """The rollouts and states from which one job fits all companions of a variant on a backbone, and how, as fields of
    `cocal_study.stages.companions.Companions`."""
    final = (str(study.policy.steps),)
    companion = study.companion
    one_layer = companion.model_copy(update={"widths": companion.widths[:1], "dropout": companion.dropout[:1]})
    binary = companion.model_copy(update={"targets": ("binary",)})  # appendices F.2 and F.3
    experience = next((kind for kind, folder in COMPANIONS.items() if folder == name), "rollouts")
    learnt_from = "postcal" if experience == "resampled" else "grpo"
    prefixes = tuple(map(str, plan.companion_prefixes(study, backbone, experience)))
    chronological = {"order": "chronological"}
    settings, steps, how = {
        "grpo": (companion, prefixes, chronological),
        "postcal": (companion, prefixes, {"order": "shuffled", "shuffle_seed": study.postcal.shuffle_seed}),
        "prompts": (plan.prompt_companion(study), prefixes, {"prompts": True}),
        ABLATIONS: (binary, final, {"states": plan.ablation_states(study, backbone)}),
        ONE_LAYER: (one_layer, final, chronological),
    }[name]
    states = states_file(backbone, learnt_from, "prompts" if experience == "prompts" else "rollouts")
    learnt = {"rollouts": rollouts_folder(backbone, learnt_from), "features": states}
    return {**learnt, "settings": settings, "steps": steps, **how}


def windows(study: Study) -> tuple[int, ...]:
    """Numbers of rollout steps that online companions learn from together: one step, and the steps of the buffer."""
    return tuple(sorted({1, study.reports.online_window or study.companion.passes}))


def replayed_folders(study: Study) -> list[str]:
    """Folders of CoCal's companions on the first steps of training, validated on the same steps."""
    prefixes = plan.companion_prefixes(study, study.main_backbone, "rollouts")
    own = [prefix for prefix in prefixes if prefix.steps == prefix.validation_steps < study.policy.steps]
    return plan.fitted(study.main_backbone, "rollouts", *own)


def ablation_folders(study: Study, backbone: str) -> list[str]:
    """Folders of the companions of all steps that read other states."""
    folder, steps = variant_folder(backbone, ABLATIONS), plan.restricted(study.policy.steps).folder
    return [f"{folder}/{states}/{steps}" for states in plan.ablation_states(study, backbone)]


def online_folders(study: Study) -> list[str]:
    """Folders of the online companions that are kept: those of every window after every stage of the policy."""
    folder = companion_folder(study.main_backbone, "online")
    return [f"{folder}/window-{window}/steps-{step}" for window in windows(study) for step in study.policy.stages]
