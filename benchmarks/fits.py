"""What limits a companion: the paper's fit beside other learners of the same responses, on a finished study or one of
its replicates: `python benchmarks/fits.py --output studies/fits/fits.csv`.

It separates four explanations of a companion that trails what the policy's own probabilities say: one member instead of
all seeds, too few updates, the scale of the states, and states that do not hold more. Written are the rows that
`tables/fits` reads, beside those of other studies and replicates that the file has.
"""

import argparse
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cocal.companion.plain import fit, mlp
from cocal.companion.settings import CompanionSettings
from cocal.features.extract import TOKEN_INPUTS
from cocal.features.store import FeatureReader, decoded, open_features
from cocal.fitting.prefixes import Rows
from cocal.fitting.recipes import best, folds_of
from cocal.metrics.calibration import auroc, expected_calibration_error, pairs_within
from cocal.metrics.shown import csv_text
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal_study.config.study import Study, load_study
from cocal_study.cubes.cube import UNSEEDED
from cocal_study.exhibits.fits import (
    BOTH,
    LEARNERS,
    LENGTH,
    MEMBER,
    OWN,
    PAPER_UPDATES,
    PROBE,
    RECIPE,
    SCALED,
    SCORES,
    TOGETHER,
    TOKENS,
    UPDATED,
)
from cocal_study.generation.labels import question_texts, read_rollouts
from cocal_study.methods.base.companion_scores import match_features
from cocal_study.methods.base.responses import read_responses
from cocal_study.methods.recalibration.confidences import parts_of
from cocal_study.planning import results
from cocal_study.planning.comparisons import SECOND
from cocal_study.store.contracts import PREDICTIONS

PENALTIES, FOLDS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4), 5
"""The penalties on the squared weights of a probe that are tried, per response."""
INPUTS = {
    PROBE: lambda one: one.states,
    TOKENS: lambda one: one.tokens,
    BOTH: lambda one: np.concatenate([one.states, one.tokens], axis=1),
}
"""What each probe reads of `Responses`."""
Confidences = Callable[[np.ndarray], np.ndarray]
"""The confidences of inputs (n, inputs), float64 (n,)."""


class Responses(NamedTuple):
    """Responses to learn from, or to one evaluation set: states float32 (n, inputs), tokens float64 (n, 4)
    (`token_features`), whether each is correct, its question; and whether it is held out, or the stored confidences of
    each method and seed, float64 (n,)."""

    states: np.ndarray
    tokens: np.ndarray
    correct: np.ndarray
    question: np.ndarray
    held_out: np.ndarray = np.zeros(0)
    stored: Mapping[tuple[str, int], np.ndarray] = {}


def main() -> None:
    """Measure one study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", type=Path, default=Path("config/config.yaml"))
    parser.add_argument("--directory", type=Path, default=Path(), help="folder of the study's results")
    parser.add_argument("--seeds", type=int, default=3, help="companion seeds to fit with")
    parser.add_argument(
        "--recipe", action="store_true", help="what `cocal fit` chooses, in the place of the probes of states"
    )
    parser.add_argument("--updates", type=int, default=PAPER_UPDATES, help="updates of the fit with the paper's number")
    parser.add_argument("--number", type=int, default=0, help="number of the replicate that the study is")
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    rows = measured(load_study(given.study), given.directory, given.seeds, given.updates, given.recipe)
    rows.insert(2, "replicate", given.number)
    write_beside(given.output, rows, ["study", "replicate"])


def write_beside(path: Path, rows: pd.DataFrame, keys: list[str]) -> None:
    """Write rows that have the same keys, in the place of those that the file has of these, or below the others."""
    before = pd.read_csv(path, keep_default_na=False, na_values=["NaN"]) if path.exists() else rows.head(0)
    others = before[(before[keys] != rows[keys].iloc[0]).any(axis=1)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(csv_text(pd.concat([others, rows], ignore_index=True)), encoding="utf-8")


def measured(study: Study, folder: Path, seeds: int, most_updates: int, recipe: bool = False) -> pd.DataFrame:
    """The scores of every learner on the evaluated responses of a finished study: the study, its main backbone, the
    sampling of the evaluation by its temperature, the method whose responses are learnt from ("" for none), the fit,
    the number of its seeds, and `SCORES`."""
    samplings = {"": study.generation} | ({SECOND: study.second_sampling} if study.second_sampling else {})
    asked = {f"temperature {of.temperature:g}": _asked(study, folder, kind) for kind, of in samplings.items()}
    rows = []

    def add(learner: str, fit: str, members: Sequence[Callable[[Responses], np.ndarray]]) -> None:
        for sampling, sets in asked.items():
            scores = scores_of([{name: member(one) for name, one in sets.items()} for member in members], sets)
            rows.append((study.study, study.main_backbone, sampling, learner, fit, len(members), *scores))
        logging.info("%s, %s", learner, fit)

    add("", OWN, [partial(_stored, [(OWN, UNSEEDED)])])
    add("", LENGTH, [lambda one: np.exp(-one.tokens[:, 3])])
    settings = study.companion
    for learner, algorithm in LEARNERS.items():
        lesson, keys = _lesson(study, folder, algorithm), [(learner, seed) for seed in settings.seeds]
        add(learner, MEMBER, [partial(_stored, [key]) for key in keys])
        add(learner, TOGETHER, [partial(_stored, keys)])
        training = lesson.states[~lesson.held_out]
        for fit_, shift, unit, updates in (
            (UPDATED, 0.0, 1.0, most_updates),
            (SCALED, training.mean(axis=0), training.std(axis=0) + 1e-6, 0),
        ):
            given = lesson._replace(states=((lesson.states - shift) / unit).astype(np.float32))
            models = [
                _fitted(given, seed, settings, updates, algorithm == "postcal") for seed in settings.seeds[:seeds]
            ]
            add(learner, fit_, [partial(_applied, model, shift, unit) for model in models])
        if recipe:
            add(learner, RECIPE, [chosen(lesson)])
        for fit_, inputs in INPUTS.items():
            if recipe and fit_ != TOKENS:
                continue
            model = probed(inputs(lesson), lesson.correct, lesson.question)
            add(learner, fit_, [lambda one, model=model, inputs=inputs: model(inputs(one))])
    return pd.DataFrame(rows, columns=["study", "backbone", "sampling", "learner", "fit", "seeds", *SCORES])


def _stored(keys: Sequence[tuple[str, int]], one: Responses) -> np.ndarray:
    return np.mean([one.stored[key] for key in keys], axis=0)


def _applied(model: Confidences, shift: Any, unit: Any, one: Responses) -> np.ndarray:
    return model(((one.states - shift) / unit).astype(np.float32))


def token_features(table: pd.DataFrame) -> np.ndarray:
    """What the policy's own probabilities say of each response (columns logprobs, length), float64 (n, 4): the mean
    log-probability of its tokens, their mean probability, the lowest log-probability, and the logarithm of its length.
    """
    each = table["logprobs"]
    found = [[one.mean(dtype=np.float64), np.exp(one, dtype=np.float64).mean(), one.min()] for one in each]
    return np.column_stack([np.array(found, dtype=np.float64), np.log(table["length"].to_numpy(np.float64))])


def probed(inputs: np.ndarray, correct: np.ndarray, question: np.ndarray) -> Confidences:
    """A logistic regression of standardised inputs, whose penalty folds by question choose by the Brier score."""

    def model(penalty: float):
        return make_pipeline(StandardScaler(), LogisticRegression(C=1 / (penalty * len(inputs)), max_iter=300))

    def error(penalty: float) -> float:
        folds = GroupKFold(FOLDS)
        chances = cross_val_predict(model(penalty), inputs, correct, groups=question, cv=folds, method="predict_proba")
        return float(((chances[:, 1] - correct) ** 2).mean())

    best = model(min(PENALTIES, key=error)).fit(inputs, correct)
    return lambda given: best.predict_proba(given)[:, 1].astype(np.float64)


def chosen(lesson: Responses) -> Callable[[Responses], np.ndarray]:
    """The confidences of what `cocal fit` chooses by cross-validation among recipes that read states alone, or states
    and three numbers about the token probabilities."""

    def inputs(one: Responses) -> np.ndarray:
        return np.concatenate([one.states, one.tokens[:, [1, 0, 2]]], axis=1, dtype=np.float32)

    count, width = lesson.states.shape
    learnt = pd.DataFrame({"truncated": np.zeros(count, dtype=bool), "correct": lesson.correct})
    settings, fold = CompanionSettings(targets=("binary",)), folds_of(lesson.question.tolist(), 42)
    reads = {width, width + TOKEN_INPUTS}
    found = best(Rows.of(np.ones(count), None), inputs(lesson), reads, width, learnt, fold, settings).model

    @torch.inference_mode()
    def confidences(one: Responses) -> np.ndarray:
        given = torch.from_numpy(inputs(one)[:, : len(found.input_mean)])
        return found(given).mean(dim=0).numpy().astype(np.float64)

    return confidences


def _asked(study: Study, folder: Path, kind: str) -> dict[str, Responses]:
    """The evaluated responses of a sampling, which ends the names of its folders, by set."""
    backbone, step = study.main_backbone, study.policy.steps
    at = (backbone, "grpo", step, f"answer{kind}")
    predicted = read_frame(folder / results.predictions_file(backbone, "grpo", step, kind), PREDICTIONS)
    predicted = predicted[predicted["method"].isin([OWN, *LEARNERS])]
    found = {}
    for name in study.evaluation_sets("mathematics"):
        place, samples = folder / results.responses_folder(*at), study.datasets[name].samples
        read = read_responses(place, name, samples, step, ["mean_logprob", "logprobs"])
        answered, reader = read.evaluated, open_features(folder / results.features_folder(*at) / f"{name}.zarr")
        stored = {
            (str(method), int(seed)): of.set_index("response_id")["confidence"].loc[answered["response_id"]].to_numpy()
            for (method, seed), of in predicted[predicted["dataset"] == name].groupby(["method", "seed"])
        }
        states = _states(reader, match_features(reader, answered, read.path))
        _, question = np.unique(answered["question_id"].to_numpy(str), return_inverse=True)
        correct = answered["correct"].to_numpy(bool)
        found[name] = Responses(states, token_features(answered), correct, question, stored=stored)
    return found


def _lesson(study: Study, folder: Path, algorithm: str) -> Responses:
    """The responses of a training, or PostCal's, that were not cut."""
    backbone, questions = study.main_backbone, folder / results.questions_file(study.policy.dataset)
    place = folder / results.rollouts_folder(backbone, algorithm)
    rollouts = read_rollouts(place, questions, study.policy.steps)
    part = parts_of(rollouts, question_texts(questions), study.companion)
    kept = part != "truncated"
    tokens = token_features(read_frame(place, RESPONSES, ["logprobs", "length"]).iloc[: len(rollouts)])
    states = _states(open_features(folder / results.states_file(backbone, algorithm)), np.flatnonzero(kept))
    correct, question = rollouts["correct"].to_numpy(bool), rollouts["question_id"].to_numpy(str)
    return Responses(states, tokens[kept], correct[kept], question[kept], part[kept] == "held out")


def _states(reader: FeatureReader, rows: np.ndarray) -> np.ndarray:
    """Last token and mean of the deepest block, as companions read them."""
    return decoded(reader.take(rows), reader.dtype)


def _fitted(lesson: Responses, seed: int, settings: CompanionSettings, updates: int, shuffled: bool) -> Confidences:
    """A companion with a seed, fitted with the study's passes or as many updates as are given."""
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
    return lambda given: _confidences(model, given)


@torch.inference_mode()
def _confidences(model: torch.nn.Module, given: np.ndarray) -> np.ndarray:
    return model.eval()(torch.from_numpy(given)).numpy().astype(np.float64)


def scores_of(found: Sequence[Mapping[str, np.ndarray]], sets: Mapping[str, Responses]) -> list[float]:
    """`SCORES` of each member's confidences by set, as means over sets and members; the AUROC within questions over the
    sets that have several responses to a question."""
    rows = []
    for name, values in ((name, values) for of_member in found for name, values in of_member.items()):
        one = sets[name]
        won, pairs = pairs_within(one.question, values, one.correct, len(one.question))
        within = won.sum() / pairs.sum() if pairs.any() else math.nan
        brier = float(((values - one.correct) ** 2).mean())
        rows.append((auroc(values, one.correct), within, expected_calibration_error(values, one.correct), brier))
    scores = pd.DataFrame(rows, columns=list(SCORES))
    within = scores["auroc_within"].mean()
    return list((scores.mean(skipna=False).to_dict() | {"auroc_within": within}).values())


if __name__ == "__main__":
    main()
