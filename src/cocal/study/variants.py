"""The companions that a study fits from stored rollouts: one job for each variant and backbone."""

from dataclasses import dataclass
from typing import Any

from cocal.config.evaluation import CompanionSettings
from cocal.config.study import Study
from cocal.study import plan
from cocal.study.results import COMPANIONS, rollouts_folder, states_file
from cocal.study.rivals import ONE_LAYER, one_layer_companion

ABLATIONS = "ablations"
VARIANTS = (*(COMPANIONS[kind] for kind in ("rollouts", "resampled", "prompts")), ABLATIONS, ONE_LAYER)
"""Names of the variants, which are those of their folders."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Companions of all prefixes, seeds and targets that one job fits on one kind of experience.

    Attributes:
        rollouts: Folder of the responses that they learn from.
        states: The hidden states of these responses, or of their prompts.
        settings: Settings of the companions.
        steps: Prefixes of the rollouts, as `Prefix` writes them.
        how: Further flags of `cocal companions`.
    """

    rollouts: str
    states: str
    settings: CompanionSettings
    steps: tuple[str, ...]
    how: dict[str, Any]


def variant_of(study: Study, backbone: str, name: str) -> Variant:
    """The variant of this name on a backbone."""
    final = (str(study.policy.steps),)
    experience = next((kind for kind, folder in COMPANIONS.items() if folder == name), "rollouts")
    learnt_from = "postcal" if experience == "resampled" else "grpo"
    prefixes = tuple(map(str, plan.companion_prefixes(study, backbone, experience)))
    chronological = {"order": "chronological"}
    settings, steps, how = {
        "grpo": (study.companion, prefixes, chronological),
        "postcal": (study.companion, prefixes, {"order": "shuffled", "shuffle-seed": study.postcal.shuffle_seed}),
        "prompts": (plan.prompt_companion(study), prefixes, {"prompts": True}),
        ABLATIONS: (plan.ablation_companion(study), final, {"states": plan.ablation_states(study, backbone)}),
        ONE_LAYER: (one_layer_companion(study), final, chronological),
    }[name]
    return Variant(
        rollouts=rollouts_folder(backbone, learnt_from),
        states=states_file(backbone, learnt_from, "prompts" if experience == "prompts" else "rollouts"),
        settings=settings,
        steps=steps,
        how=how,
    )
