"""The rivals of tables/recalibrated: scores that may learn from the same rollouts as the companions.

Each rival is shown as it is, and after Platt scaling and isotonic regression on rollouts of the training questions.
"""

from dataclasses import replace
from typing import Literal, get_args

from cocal.config.evaluation import CompanionSettings
from cocal.config.method import Reader, Rival
from cocal.config.methods import METHODS
from cocal.config.study import Study
from cocal.study.plan import available_methods, restricted, trainer_of
from cocal.study.results import companion_folder, variant_folder

ONE_LAYER = "one-layer"
"""Name of the companions of one hidden layer, as a reader and as a variant."""
Calibration = Literal["raw", "platt", "isotonic"]
CALIBRATIONS: tuple[Calibration, ...] = get_args(Calibration)
"""The treatments of a score: none, Platt scaling, or isotonic regression."""

_DECLARED = [replace(rival, method=method.name) for method in METHODS.values() for rival in method.rivals]
RIVALS = {rival.name: rival for rival in sorted(_DECLARED, key=lambda rival: rival.position)}
"""All rivals by name, in the order of the table. Methods declare them (`cocal.config.method.Method.rivals`)."""


def named(rival: str, calibration: Calibration) -> str:
    """Name of a rival's confidences in tables of predictions and in metric cubes, such as "rlcr+platt"."""
    return rival if calibration == "raw" else f"{rival}+{calibration}"


def rivals_of(study: Study, algorithm: str) -> list[Rival]:
    """The rivals that a study has on the policy of an algorithm, whose own rollouts recalibrate them.

    The rollouts of RLCR and DCPO are not kept where another engine trained these policies.
    """
    kept = algorithm == "grpo" or trainer_of(study, study.main_backbone, algorithm) != "imported"
    known = available_methods(study)
    return [one for one in RIVALS.values() if kept and one.method in known and METHODS[one.method].policy == algorithm]


def recalibrated_algorithms(study: Study) -> list[str]:
    """The algorithms on whose policies a study has rivals."""
    return [algorithm for algorithm in study.policy.algorithms if rivals_of(study, algorithm)]


def all_rivals(study: Study) -> list[Rival]:
    """The rivals that a study has on any of its policies, in the order of the table."""
    found = {one.name for algorithm in study.policy.algorithms for one in rivals_of(study, algorithm)}
    return [one for one in RIVALS.values() if one.name in found]


def reads_states(study: Study, algorithm: str) -> bool:
    """True if a rival on the policy of an algorithm reads hidden states."""
    return any(one.reader for one in rivals_of(study, algorithm))


def one_layer_companion(study: Study) -> CompanionSettings:
    """Settings of companions that differ from CoCal's in their depth alone: they have its first hidden layer."""
    first = {"widths": study.companion.widths[:1], "dropout": study.companion.dropout[:1]}
    return study.companion.model_copy(update=first)


def reader_folders(study: Study) -> dict[Reader, str]:
    """Folders of the companions of all steps that score rivals, by their kind; none where no rival reads states."""
    if not reads_states(study, "grpo"):
        return {}
    backbone, steps = study.main_backbone, restricted(study.policy.steps).folder
    own = companion_folder(backbone, "rollouts")
    return {"one-layer": f"{variant_folder(backbone, ONE_LAYER)}/{steps}", "rollouts": f"{own}/{steps}"}
