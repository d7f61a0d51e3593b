"""The paper's fit of companions beside others, on the states of a finished study: raw or standardised states, the last
token's, the mean or both, few or the paper's updates, CoCal, PostCal or a linear probe (beyond the paper).

It separates three explanations of a companion that trails what the policy's own probabilities say: too few updates, the
scale of the states, and states that do not hold more. The rule was written before anything was run (`explanations`).
"""

import logging
import math
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.companion.settings import CompanionSettings
from cocal.features.store import FeatureReader, open_features
from cocal.metrics.calibration import auroc, expected_calibration_error
from cocal_study.config.study import Study
from cocal_study.generation.labels import question_texts, read_rollouts
from cocal_study.methods.base.responses import read_responses
from cocal_study.methods.recalibration.confidences import parts_of
from cocal_study.planning.results import features_folder, questions_file, responses_folder, rollouts_folder, states_file

RAW, STANDARDISED = "raw", "standardised"
FEW, PAPER = "the study's", "the paper's"
"""The numbers of updates: those of the study's passes, and as many as the paper's."""
PAPER_UPDATES = 5940
"""152,065 responses in batches of 256, ten times over."""
POOLINGS = {"last": ("last",), "mean": ("mean",), "last+mean": ("last", "mean")}
METHODS = {"cocal-binary": "grpo", "postcal-binary": "postcal"}
"""The companions, and whose states they learn from."""
PROBE, OWN = "linear-binary", "token-probability"
COLUMNS = ("study", "backbone", "scale", "pooling", "updates", "method", "seeds", "norm", "deviation")
COLUMNS += ("auroc", "ece", "brier")
"""Columns of what is measured: how states are given and pooled, how long is fitted, the method, the number of seeds;
mean norm of the training states and the root of their mean squared distance from their mean; and, as means over the
seeds and the mathematical sets, the scores of the confidences."""
_NEAR = 0.01
"""An AUROC that is lower by no more than this reaches another one."""


def measured(study: Study, folder: Path, seeds: int) -> pd.DataFrame:
    """Fit every arm on the states of a finished study, whose results a folder holds, with so many of its companion
    seeds, and score it on the evaluated responses: the columns `COLUMNS`.

    Raises:
        ContractError: if a file of the study is missing or damaged.
    """
    # these load torch, which the plan does without
    from cocal_study.methods.base.companion_scores import match_features
    from cocal_study.methods.base.responses import LabelledStates
    from cocal_study.methods.linear_probe import LinearProbe

    backbone, step, settings = study.main_backbone, study.policy.steps, study.companion
    sets = {name: study.datasets[name].samples for name in study.evaluation_sets("mathematics")}
    at = (backbone, "grpo", step, "answer")
    answered = {
        name: read_responses(folder / responses_folder(*at), name, count, step, ["mean_logprob"])
        for name, count in sets.items()
    }
    readers = {name: open_features(folder / features_folder(*at) / f"{name}.zarr") for name in sets}
    correct = {name: one.evaluated["correct"].to_numpy(np.float64) for name, one in answered.items()}
    own = {name: np.exp(one.evaluated["mean_logprob"].to_numpy()) for name, one in answered.items()}
    head = (study.study, backbone)
    rows = [(*head, "", "", "", OWN, 0, math.nan, math.nan, *_scores([own], correct))]
    for method, algorithm in METHODS.items():
        states, learnt, held_out = _experience(study, folder, algorithm)
        for pooling, names in POOLINGS.items():
            training = _pooled(states, learnt.index.to_numpy(), names)
            tested = {
                name: _pooled(readers[name], match_features(readers[name], one.evaluated, one.path), names)
                for name, one in answered.items()
            }
            middle, deviation = training[~held_out].mean(axis=0), training[~held_out].std(axis=0) + 1e-6
            scale = (np.linalg.norm(training[~held_out], axis=1).mean(), math.sqrt((deviation**2).sum()))
            label = learnt["correct"].to_numpy(np.float32)
            if method == "cocal-binary":
                parts = (LabelledStates(training[rows], label[rows] > 0, label[rows]) for rows in (~held_out, held_out))
                probe = LinearProbe.fit("binary", *parts)
                found = {name: probe.apply(one) for name, one in tested.items()}
                rows.append((*head, STANDARDISED, pooling, "", PROBE, 1, *scale, *_scores([found], correct)))
            for given, updates in product((RAW, STANDARDISED), (FEW, PAPER)):
                shift, unit = (middle, deviation) if given == STANDARDISED else (0.0, 1.0)
                inputs = ((training - shift) / unit).astype(np.float32)
                how = settings, updates, method == "postcal-binary"
                fitted = [_fitted(inputs, label, held_out, seed, *how) for seed in settings.seeds[:seeds]]
                found = [
                    {name: model(((one - shift) / unit).astype(np.float32)) for name, one in tested.items()}
                    for model in fitted
                ]
                logging.info("%s, %s states, %s, %s updates", method, given, pooling, updates)
                scores = _scores(found, correct)
                rows.append((*head, given, pooling, updates, method, len(fitted), *scale, *scores))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _experience(study: Study, folder: Path, algorithm: str) -> tuple[FeatureReader, pd.DataFrame, np.ndarray]:
    """The states of a training, its rollouts that were not cut, by their rows, and which of them are held out."""
    backbone, settings = study.main_backbone, study.companion
    questions = folder / questions_file(study.policy.dataset)
    rollouts = read_rollouts(folder / rollouts_folder(backbone, algorithm), questions, study.policy.steps)
    part = parts_of(rollouts, question_texts(questions), settings)
    kept = part != "truncated"
    return open_features(folder / states_file(backbone, algorithm)), rollouts[kept], part[kept] == "held out"


def _pooled(reader: FeatureReader, rows: np.ndarray, poolings: tuple[str, ...]) -> np.ndarray:
    from cocal.features.store import decoded

    return decoded(reader.take(rows, poolings=poolings), reader.dtype)


def _fitted(
    states: np.ndarray,
    label: np.ndarray,
    held_out: np.ndarray,
    seed: int,
    settings: CompanionSettings,
    updates: str,
    shuffled: bool,
):
    import torch

    from cocal.companion.plain import fit, mlp

    torch.manual_seed(seed)
    model = mlp(states.shape[1], settings.widths, settings.dropout)
    batches = math.ceil((~held_out).sum() / settings.batch_size)
    passes = settings.passes if updates == FEW else math.ceil(PAPER_UPDATES / batches)
    given = (torch.from_numpy(one) for one in (states, label, label, held_out))
    order = np.random.default_rng(seed) if shuffled else None
    rate = settings.learning_rate
    fit(model, *given, learning_rate=rate, batch_size=settings.batch_size, passes=passes, shuffling=order)

    def confidences(tested: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return model.eval()(torch.from_numpy(tested)).numpy().astype(np.float64)

    return confidences


def _scores(found: list[dict[str, np.ndarray]], correct: dict[str, np.ndarray]) -> tuple[float, float, float]:
    """AUROC, ECE and Brier score: of every set first, then as means over sets and seeds."""
    rows = [
        (
            auroc(values, correct[name] > 0),
            expected_calibration_error(values, correct[name] > 0),
            float(((values - correct[name]) ** 2).mean()),
        )
        for one in found
        for name, values in one.items()
    ]
    return tuple(np.mean(rows, axis=0).tolist())


def explanations(rows: pd.DataFrame) -> list[str]:
    """Which of the three explanations hold for CoCal in one study, by the rule that was written beforehand.

    Under-trained if raw states with the paper's updates reach the probe of the same states; unnormalised if
    standardised states with the study's updates do and raw ones do not; the states hold too little if the probe stays
    below the policy's token probability. Each is about AUROC with both poolings.
    """
    both = rows[rows["pooling"] == "last+mean"]
    probe = both.loc[both["method"] == PROBE, "auroc"].item()
    own = rows.loc[rows["method"] == OWN, "auroc"].item()
    cocal = both[both["method"] == "cocal-binary"].set_index(["scale", "updates"])["auroc"]

    def reaches(scale: str, updates: str) -> bool:
        return cocal[scale, updates] >= probe - _NEAR

    said = {
        "under-trained": reaches(RAW, PAPER) and not reaches(RAW, FEW),
        "unnormalised": reaches(STANDARDISED, FEW) and not reaches(RAW, FEW),
        "states that hold too little": probe < own,
    }
    return [f"{name}: {'yes' if found else 'no'}" for name, found in said.items()]
