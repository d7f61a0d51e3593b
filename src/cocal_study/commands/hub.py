"""Companions of a finished study in the layout of the Hugging Face Hub, and one of them with data to try it on."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.companion.companions import load_companions
from cocal.confidence import saved
from cocal.errors import ContractError
from cocal.fitting.baselines import baselines
from cocal.fitting.config import BaseModelInfo, CompanionConfig, prompt_digests
from cocal.fitting.held_out import HeldOut
from cocal.fitting.quality import quality_of
from cocal.fitting.recipes import folds_of
from cocal.store import atomic_path, label_folder, provenance, read_frame, write_text
from cocal.store.contracts import RESPONSES
from cocal.store.damage import absent
from cocal_study.config.study import Study
from cocal_study.planning import plan, results
from cocal_study.planning.bundle import STAGE
from cocal_study.provenance.lineage import Product
from cocal_study.store.contracts import PREDICTIONS

RESULTS = "results"
"""First folder in the paths of results."""
EVALUATION, ROLLOUTS = "evaluation.parquet", "rollouts.jsonl"
_ROLLOUTS = 512
"""Number of the last rollouts that lie beside a companion: enough to try `cocal score` and to fit another one."""


def save_companions(study: Study, given: Path, folder: Path) -> None:
    """Save the companions of the final policies of a study, whose results are in `given`, those of each experience in a
    folder of their own. Raises ContractError if a policy or its companions are missing."""
    for backbone in study.backbones:
        for experience in plan.experiences_of(plan.methods_of(study, backbone, "grpo", study.policy.steps)):
            saved.write(folder / f"{backbone}-{experience}", *_companions(study, given, backbone, experience))


def publish_companion(study: Study, given: Path, folder: Path, licence: str, seeds: int | None) -> None:
    """Save the main policy's companion with its confidences in the evaluated mathematical responses, on which its card
    states its quality, and with the last of the rollouts that it learnt from. With `seeds`, only that many members of
    the usual target are saved. Raises ContractError if a file of the study is missing or damaged."""
    backbone, step = study.main_backbone, study.policy.steps
    companions, config = _companions(study, given, backbone, "rollouts")
    target = companions.spec.usual_target
    if seeds:
        companions = companions.first(target, seeds)
    seeds_of = companions.spec.settings.seeds
    answered = _evaluated(study, given, f"cocal-{target}", seeds_of)
    confidences = [_evaluated(study, given, name)["confidence"] for name in ("token-probability", "self-consistency")]
    shown = ["prompt_ids", "response_ids", "text", "step", "question_id", "sample", "truncated", "correct"]
    rollouts = read_frame(given / _within(results.rollouts_folder(backbone, "grpo")), RESPONSES, shown)
    notes = (
        *config.notes,
        f"{EVALUATION} has its confidence in each response that the study evaluated it on, without texts.",
        f"{ROLLOUTS} has the last rollouts that it learnt from, as `cocal score` and `cocal fit` take them.",
    )
    lengths = answered.merge(_lengths(study, given), how="left", validate="one_to_one")["length"]
    update = {"held_out": _quality(answered, lengths, confidences, seeds_of, target), "notes": notes}
    update["spec"] = companions.spec
    update["license"] = licence.rsplit("/", 1)[-1].lower()
    made = provenance(STAGE, {"licence": licence}, study=study.study)
    with atomic_path(folder) as being_made:
        saved.write(being_made, companions, config.model_copy(update=update))
        answered.to_parquet(being_made / EVALUATION, index=False)
        write_text(being_made / ROLLOUTS, rollouts.tail(_ROLLOUTS).to_json(orient="records", lines=True))
        label_folder(being_made, made)
    logging.info("%s: a companion for the Hub, with %d evaluated responses of step %d", folder, len(answered), step)


def _within(place: str) -> Path:
    return Path(place).relative_to(RESULTS)


def _companions(study: Study, given: Path, backbone: str, experience: str) -> tuple:
    """The companions of a final policy, and their config without measured quality."""
    from transformers import AutoConfig

    checkpoint = results.policy_folder(backbone, "grpo", study.policy.steps)
    policy = given / _within(checkpoint)
    (place,) = plan.fitted(backbone, experience, plan.restricted(study.policy.steps))
    companions = load_companions(given / _within(place))
    if not policy.exists():
        raise ContractError(absent(policy))
    config = AutoConfig.from_pretrained(policy, local_files_only=True, trust_remote_code=False)
    base = BaseModelInfo.of(config, checkpoint).model_copy(update={"step": study.policy.steps})
    notes = (
        f"The study {study.study} fitted these companions ({place}); its tables say how good they are.",
        f"The base model has the digest {Product(policy).identity}; it is not in here.",
    )
    rollouts = read_frame(given / _within(results.rollouts_folder(backbone, "grpo")), RESPONSES, ["prompt_ids"])
    known = {"states": study.features.dtype, "notes": notes, "asked": prompt_digests(rollouts["prompt_ids"])}
    return companions, CompanionConfig(spec=companions.spec, base_model=base, **known)


def _evaluated(study: Study, given: Path, method: str, seeds: tuple[int, ...] = (-1,)) -> pd.DataFrame:
    """The evaluated mathematical responses with a method's mean confidence over these seeds; -1 stands for no seed."""
    place = results.predictions_file(study.main_backbone, "grpo", study.policy.steps)
    table = read_frame(given / _within(place), PREDICTIONS)
    mathematical = table["dataset"].isin(study.evaluation_sets("mathematics"))
    table = table[(table["method"] == method) & table["seed"].isin(seeds) & mathematical]
    keys = ["dataset", "question_id", "response_id", "correct", "truncated"]
    return table.groupby(keys, sort=False)["confidence"].mean().reset_index()


def _lengths(study: Study, given: Path) -> pd.DataFrame:
    """Lengths in tokens of the evaluated mathematical responses: columns dataset, question_id, response_id, length."""
    cell = study.main_backbone, "grpo", study.policy.steps, "answer"
    read = ["dataset", "question_id", "response_id", "length"]
    files = (results.responses_file(*cell, name) for name in study.evaluation_sets("mathematics"))
    return pd.concat([read_frame(given / _within(file), RESPONSES, read) for file in files], ignore_index=True)


def _quality(
    answered: pd.DataFrame, lengths: pd.Series, confidences: Sequence[pd.Series], seeds: tuple[int, ...], target: str
) -> HeldOut:
    """Quality on all of these responses together, beside that of baselines that read the responses' lengths, mean token
    probability and self-consistency. Either of the last two is left out if it is of other responses."""
    confidence, correct = answered["confidence"].to_numpy(np.float64), answered["correct"].to_numpy(bool)
    questions = answered["dataset"] + "/" + answered["question_id"]
    truncated = answered["truncated"].to_numpy(bool)
    tokens, agreed = (
        values.fillna(0.0).to_numpy(np.float64) if len(values) == len(correct) else None for values in confidences
    )
    tokens = None if tokens is None else tokens[:, None]
    beside = baselines(correct, folds_of(questions, 42), truncated, lengths.to_numpy(), tokens, agreed)
    facts = {"chose": False, "truncated": float(truncated.mean()), "seeds": seeds, "target": target}
    return quality_of(questions, confidence, correct, beside, **facts)
