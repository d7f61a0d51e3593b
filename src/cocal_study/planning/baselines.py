"""The baselines of tables/recalibrated: scores that may learn from the same rollouts as the companions.

Each baseline is shown as it is, and after Platt scaling and isotonic regression on responses to the training questions.
"""

from collections.abc import Collection
from typing import Literal, get_args

from cocal_study.config.method import Baseline, Reader
from cocal_study.config.methods import METHODS, declared_baselines
from cocal_study.config.study import Study
from cocal_study.planning.plan import available_methods, layers_of, restricted, trainer_of
from cocal_study.planning.results import companion_folder, variant_folder

ONE_LAYER: Reader = "one-layer"
"""Name of the companions of one hidden layer, as a reader and as a variant."""
Kind = Literal["platt", "isotonic"]
"""The calibrators: Platt scaling and isotonic regression."""
Basis = Literal["all", "last", "resampled"]
"""What calibrators learn from: all rollouts, those of the last stage, or PostCal's responses of the final policy."""
CALIBRATIONS: dict[str, tuple[Kind, Basis]] = {
    f"{kind}-{basis}": (kind, basis) for basis in get_args(Basis) for kind in get_args(Kind)
}
"""The calibrations by name; "raw" stands for a score as it is."""

BASELINES = {baseline.name: baseline for baseline in declared_baselines()}
"""All baselines by name, in the order of the table."""


def named(baseline: str, calibration: str) -> str:
    """Name of a baseline's confidences in tables of predictions and in metric cubes, such as "rlcr+platt-all"."""
    return baseline if calibration == "raw" else f"{baseline}+{calibration}"


def learns_from(baseline: str, basis: Basis) -> bool:
    """True if a baseline is recalibrated on a basis. On rollouts, all are except PostCal; on PostCal's responses, only
    CoCal and PostCal are."""
    reader = BASELINES[baseline].reader
    return reader in ("rollouts", "resampled") if basis == "resampled" else reader != "resampled"


def calibrations_of(baseline: str, bases: Collection[str]) -> list[str]:
    """Names of the calibrations of a baseline on these bases."""
    return [name for name, (_, basis) in CALIBRATIONS.items() if basis in bases and learns_from(baseline, basis)]


def baselines_of(study: Study, algorithm: str) -> list[Baseline]:
    """The baselines that a study has on the policy of an algorithm, whose own rollouts recalibrate them.

    The rollouts of RLCR and DCPO are not kept where another engine trained these policies.
    """
    kept = algorithm == "grpo" or trainer_of(study, study.main_backbone, algorithm) != "imported"
    chosen, left_out = study.reports.baselines, without_states(study)
    baselines = [
        baseline
        for baseline in BASELINES.values()
        if baseline not in left_out and (chosen is None or baseline.name in chosen)
    ]
    known = available_methods(study)
    return [
        baseline
        for baseline in baselines
        if kept and baseline.method in known and METHODS[baseline.method].policy == algorithm
    ]


def without_states(study: Study) -> list[Baseline]:
    """The baselines that read a block whose states a study does not store."""
    depth, stored = study.backbones[study.main_backbone].depth, layers_of(study, study.main_backbone)
    return [
        baseline for baseline in BASELINES.values() if not {b + depth * (b < 0) for b in baseline.blocks} <= {*stored}
    ]


def recalibrated_algorithms(study: Study) -> list[str]:
    """The algorithms on whose policies a study has baselines."""
    return [algorithm for algorithm in study.policy.algorithms if baselines_of(study, algorithm)]


def all_baselines(study: Study) -> list[Baseline]:
    """The baselines that a study has on any of its policies, in the order of the table."""
    names = {baseline.name for algorithm in study.policy.algorithms for baseline in baselines_of(study, algorithm)}
    return [baseline for baseline in BASELINES.values() if baseline.name in names]


def calibrated(study: Study) -> dict[str, list[str]]:
    """Names of a study's baselines by the calibrations that they have, "raw" first, in the order of the table."""
    names = [baseline.name for baseline in all_baselines(study)]
    bases = ["all"] + ["last"] * (len(study.policy.stages) > 1)
    bases += ["resampled"] * ("resampled" in reader_folders(study, "grpo"))
    baselines = {how: [name for name in names if how in calibrations_of(name, bases)] for how in CALIBRATIONS}
    return {"raw": names} | {how: some for how, some in baselines.items() if some}


def reader_folders(study: Study, algorithm: str) -> dict[Reader, str]:
    """Folders of the companions of all steps that score baselines on the policy of an algorithm, by their kind; none
    where no baseline reads states."""
    backbone, steps = study.main_backbone, restricted(study.policy.steps).folder
    folders: dict[Reader, str]
    folders = {name: companion_folder(backbone, name) for name in ("rollouts", "resampled")}
    folders[ONE_LAYER] = variant_folder(backbone, ONE_LAYER)
    kinds = {baseline.reader for baseline in baselines_of(study, algorithm)}
    return {kind: f"{folder}/{steps}" for kind, folder in folders.items() if kind in kinds}
