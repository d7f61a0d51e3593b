"""What limits a companion: the paper's fit beside other learners of the same responses, on a finished study or one of
its replicates (beyond the paper).

It separates four explanations of a companion that trails what the policy's own probabilities say: one member instead of
all seeds, too few updates, the scale of the states, and states that do not hold more. The rules (`explanations`) were
written before anything was run.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cocal.companion.settings import CompanionSettings
from cocal.features.store import FeatureReader, decoded, open_features
from cocal.metrics.calibration import auroc, expected_calibration_error, pairs_within
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal_study.config.study import Study
from cocal_study.cubes.cube import UNSEEDED
from cocal_study.generation.labels import question_texts, read_rollouts
from cocal_study.methods.base.responses import read_responses
from cocal_study.methods.recalibration.confidences import parts_of
from cocal_study.planning.comparisons import SECOND
from cocal_study.planning.results import (
    features_folder,
    predictions_file,
    questions_file,
    responses_folder,
    rollouts_folder,
    states_file,
)
from cocal_study.store.contracts import PREDICTIONS

LEARNERS = {"cocal-binary": "grpo", "postcal-binary": "postcal"}
"""The companions, and whose responses they and the other learners of their rows learn from."""
MEMBER, TOGETHER, UPDATED, SCALED = "member", "seeds together", "paper's updates", "standardised"
PROBE, TOKENS, BOTH = "probe", "tokens", "states and tokens"
OWN, LENGTH = "token-probability", "length"
PAPER_UPDATES = 5940
"""152,065 responses in batches of 256, ten times over."""
SCORES = ("auroc", "auroc_within", "ece", "brier")
COLUMNS = ("study", "backbone", "replicate", "sampling", "learner", "fit", "seeds", *SCORES)
"""Columns of what is measured: the study, its main backbone and the number of the replicate (0 for the study itself);
the sampling of the evaluation by its temperature; the method whose responses are learnt from, "" for what learns
nothing; the fit, the number of its seeds, and as means over these and the mathematical sets, the scores of the
confidences."""
PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
"""The penalties on the squared weights of a probe that are tried, per response."""
_TEMPERATURE = "temperature {0.temperature:g}".format
_FOLDS = 5
_NEAR = 0.01
"""An AUROC that is lower by no more than this reaches another one."""


Confidences = Callable[[np.ndarray], np.ndarray]
"""The confidences of inputs (n, inputs), float64 (n,)."""


class Lesson(NamedTuple):
    """Responses to learn from: states float32 (n, inputs), tokens float64 (n, 4) (`token_features`), whether each is
    correct, whether it is held out, and its question."""

    states: np.ndarray
    tokens: np.ndarray
    correct: np.ndarray
    held_out: np.ndarray
    question: np.ndarray


class Asked(NamedTuple):
    """Responses to one evaluation set, with the stored confidences of each method and seed, float64 (n,)."""

    states: np.ndarray
    tokens: np.ndarray
    correct: np.ndarray
    question: np.ndarray
    stored: Mapping[tuple[str, int], np.ndarray]


def measured(study: Study, folder: Path, seeds: int, replicate: int = 0) -> pd.DataFrame:
    """Score every learner on the evaluated responses of a finished study, whose results a folder holds, with so many of
    its companion seeds where one is fitted anew: the columns `COLUMNS`.

    Raises:
        ContractError: if a file of the study is missing or damaged.
    """
    samplings = {_TEMPERATURE(study.generation): ""}
    samplings |= {_TEMPERATURE(study.second_sampling): SECOND} if study.second_sampling else {}
    asked = {name: _asked(study, folder, kind) for name, kind in samplings.items()}
    rows = []

    def add(learner: str, fit: str, members: Sequence[Callable[[Asked], np.ndarray]]) -> None:
        for sampling, sets in asked.items():
            found = [{name: member(one) for name, one in sets.items()} for member in members]
            scores = scores_of(found, sets)
            head = (study.study, study.main_backbone, replicate, sampling, learner, fit, len(members))
            rows.append((*head, *scores))

    add("", OWN, [partial(_stored, [(OWN, UNSEEDED)])])
    add("", LENGTH, [lambda one: np.exp(-one.tokens[:, 3])])
    settings = study.companion
    for learner, algorithm in LEARNERS.items():
        lesson, keys = _lesson(study, folder, algorithm), [(learner, seed) for seed in settings.seeds]
        add(learner, MEMBER, [partial(_stored, [key]) for key in keys])
        add(learner, TOGETHER, [partial(_stored, keys)])
        middle, scale = _moments(lesson.states[~lesson.held_out])
        for fit, shift, unit, updates in ((UPDATED, 0.0, 1.0, PAPER_UPDATES), (SCALED, middle, scale, 0)):
            given = lesson._replace(states=((lesson.states - shift) / unit).astype(np.float32))
            models = [
                _fitted(given, seed, settings, updates, algorithm == "postcal") for seed in settings.seeds[:seeds]
            ]
            add(learner, fit, [partial(_applied, model, shift, unit) for model in models])
            logging.info("%s, %s", learner, fit)
        for fit, inputs in _INPUTS.items():
            add(learner, fit, [partial(_probing, probed(inputs(lesson), lesson.correct, lesson.question), inputs)])
            logging.info("%s, %s", learner, fit)
    return pd.DataFrame(rows, columns=list(COLUMNS))


_INPUTS = {
    PROBE: lambda one: one.states,
    TOKENS: lambda one: one.tokens,
    BOTH: lambda one: np.concatenate([one.states, one.tokens], axis=1),
}
"""What each probe reads of a `Lesson` or of what is `Asked`."""


def _stored(keys: Sequence[tuple[str, int]], one: Asked) -> np.ndarray:
    """The mean of stored confidences."""
    return np.mean([one.stored[key] for key in keys], axis=0)


def _applied(model: Confidences, shift: Any, unit: Any, one: Asked) -> np.ndarray:
    return model(((one.states - shift) / unit).astype(np.float32))


def _probing(probe: Confidences, inputs: Callable[[Any], np.ndarray], one: Asked) -> np.ndarray:
    return probe(inputs(one))


def token_features(table: pd.DataFrame) -> np.ndarray:
    """What the policy's own probabilities say of each response (columns logprobs, length), float64 (n, 4): the mean
    log-probability of its tokens, their mean probability, the lowest log-probability, and the logarithm of its length.
    """
    each = table["logprobs"]
    found = [[one.mean(dtype=np.float64), np.exp(one, dtype=np.float64).mean(), one.min()] for one in each]
    return np.column_stack([np.array(found, dtype=np.float64), np.log(table["length"].to_numpy(np.float64))])


def probed(inputs: np.ndarray, correct: np.ndarray, question: np.ndarray) -> Confidences:
    """A logistic regression with a penalty on the squared weights of standardised inputs, which five folds by question
    choose by the Brier score; a function from inputs (m, inputs) to float64 (m,)."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def model(penalty: float):
        return make_pipeline(StandardScaler(), LogisticRegression(C=1 / (penalty * len(inputs)), max_iter=300))

    def error(penalty: float) -> float:
        folds = GroupKFold(_FOLDS)
        chances = cross_val_predict(model(penalty), inputs, correct, groups=question, cv=folds, method="predict_proba")
        return float(((chances[:, 1] - correct) ** 2).mean())

    best = model(min(PENALTIES, key=error)).fit(inputs, correct)
    return lambda given: best.predict_proba(given)[:, 1].astype(np.float64)


def _asked(study: Study, folder: Path, kind: str) -> dict[str, Asked]:
    """The evaluated responses of a sampling, which ends the names of its folders, by set."""
    # this loads torch, which the plan does without
    from cocal_study.methods.base.companion_scores import match_features

    backbone, step = study.main_backbone, study.policy.steps
    at = (backbone, "grpo", step, f"answer{kind}")
    predicted = read_frame(folder / predictions_file(backbone, "grpo", step, kind), PREDICTIONS)
    predicted = predicted[predicted["method"].isin([OWN, *LEARNERS])]
    found = {}
    for name in study.evaluation_sets("mathematics"):
        read = read_responses(
            folder / responses_folder(*at), name, study.datasets[name].samples, step, ["mean_logprob", "logprobs"]
        )
        answered = read.evaluated
        reader = open_features(folder / features_folder(*at) / f"{name}.zarr")
        rows = predicted[predicted["dataset"] == name]
        stored = {
            (str(method), int(seed)): of.set_index("response_id")["confidence"].loc[answered["response_id"]].to_numpy()
            for (method, seed), of in rows.groupby(["method", "seed"])
        }
        states = _states(reader, match_features(reader, answered, read.path))
        _, question = np.unique(answered["question_id"].to_numpy(str), return_inverse=True)
        found[name] = Asked(states, token_features(answered), answered["correct"].to_numpy(bool), question, stored)
    return found


def _lesson(study: Study, folder: Path, algorithm: str) -> Lesson:
    """The responses of a training, or PostCal's, that were not cut."""
    backbone, settings = study.main_backbone, study.companion
    questions = folder / questions_file(study.policy.dataset)
    place = folder / rollouts_folder(backbone, algorithm)
    rollouts = read_rollouts(place, questions, study.policy.steps)
    part = parts_of(rollouts, question_texts(questions), settings)
    kept = part != "truncated"
    tokens = token_features(read_frame(place, RESPONSES, ["logprobs", "length"]).iloc[: len(rollouts)])
    states = _states(open_features(folder / states_file(backbone, algorithm)), np.flatnonzero(kept))
    correct = rollouts["correct"].to_numpy(bool)
    question = rollouts["question_id"].to_numpy(str)
    return Lesson(states, tokens[kept], correct[kept], part[kept] == "held out", question[kept])


def _states(reader: FeatureReader, rows: np.ndarray) -> np.ndarray:
    """Last token and mean of the deepest block, as companions read them."""
    return decoded(reader.take(rows), reader.dtype)


def _moments(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return states.mean(axis=0), states.std(axis=0) + 1e-6


def _fitted(lesson: Lesson, seed: int, settings: CompanionSettings, updates: int, shuffled: bool) -> Confidences:
    """A companion with a seed, fitted with the study's passes or as many updates as are given."""
    import torch

    from cocal.companion.plain import fit, mlp

    torch.manual_seed(seed)
    model = mlp(lesson.states.shape[1], settings.widths, settings.dropout)
    batches = math.ceil((~lesson.held_out).sum() / settings.batch_size)
    label = torch.from_numpy(lesson.correct.astype(np.float32))
    fit(
        model,
        torch.from_numpy(lesson.states),
        label,
        label,
        torch.from_numpy(lesson.held_out),
        learning_rate=settings.learning_rate,
        batch_size=settings.batch_size,
        passes=math.ceil(updates / batches) if updates else settings.passes,
        shuffling=np.random.default_rng(seed) if shuffled else None,
    )

    def confidences(tested: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return model.eval()(torch.from_numpy(tested)).numpy().astype(np.float64)

    return confidences


def scores_of(found: Sequence[Mapping[str, np.ndarray]], sets: Mapping[str, Asked]) -> tuple[float, ...]:
    """`SCORES` of each member's confidences by set: of every set first, then as means over sets and members; the AUROC
    within questions over the sets that have several responses to a question. NaN where a set leaves a score undefined.
    """
    rows = []
    for of_member in found:
        for name, values in of_member.items():
            one = sets[name]
            won, pairs = pairs_within(one.question, values, one.correct, len(one.question))
            within = won.sum() / pairs.sum() if pairs.any() else math.nan
            brier = float(((values - one.correct) ** 2).mean())
            rows.append((auroc(values, one.correct), within, expected_calibration_error(values, one.correct), brier))
    scores = np.array(rows)
    within = scores[:, SCORES.index("auroc_within")]
    means = dict(zip(SCORES, scores.mean(axis=0).tolist(), strict=True))
    known = within[~np.isnan(within)]
    return tuple((means | {"auroc_within": float(known.mean()) if known.size else math.nan}).values())


def explanations(rows: pd.DataFrame) -> list[str]:
    """Which explanations hold for CoCal with the evaluation's own sampling, which comes first, as means over the
    replicates of one study, by the rules that were written beforehand, each about AUROC.

    One member is too few if all seeds together reach the probe of the same states; a companion is under-trained if the
    paper's updates do, and unnormalised if standardised states do, where the member itself does not; the states hold
    too little if the probe stays below the policy's token probability.
    """
    of = (
        rows[(rows["sampling"] == rows["sampling"].iloc[0]) & rows["learner"].isin(["", "cocal-binary"])]
        .groupby("fit")["auroc"]
        .mean()
    )

    def reaches(fit: str) -> bool:
        return bool(of[fit] >= of[PROBE] - _NEAR)

    said = {
        "one member is too few": reaches(TOGETHER) and not reaches(MEMBER),
        "under-trained": reaches(UPDATED) and not reaches(MEMBER),
        "unnormalised": reaches(SCALED) and not reaches(MEMBER),
        "states that hold too little": bool(of[PROBE] < of[OWN]),
    }
    return [f"{name}: {'yes' if found else 'no'}" for name, found in said.items()]
