"""The confidences of recalibrated rivals: their scores of rollouts and of evaluated responses, and their tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cocal.config.evaluation import CompanionSettings, EstimatorSettings
from cocal.config.method import Target
from cocal.config.methods import METHODS
from cocal.errors import ContractError
from cocal.features.formats import decoded
from cocal.features.store import FeatureReader, open_features
from cocal.methods.recalibration.fits import Fits, Scored
from cocal.methods.recalibration.linear import LinearProbe
from cocal.methods.recalibration.scores import POOLED, score
from cocal.methods.responses import FACTS, Estimator, Responses, read_responses
from cocal.methods.self_consistency import check_pool
from cocal.methods.token_probability import least_token_probability
from cocal.study.rivals import CALIBRATIONS, RIVALS, Reader, named

if TYPE_CHECKING:
    from cocal.companion.companions import Companions


@dataclass(frozen=True)
class Scorer:
    """What gives the rivals of one policy their scores.

    Attributes:
        rivals: Names of the rivals.
        settings: Settings of the estimators.
        companions: Fitted companions by kind (`cocal.study.rivals.Rival.reader`).
        linear: Fitted linear probes.
        pool: Number of responses per question in the self-consistency pool.
    """

    rivals: Sequence[str]
    settings: EstimatorSettings
    companions: "Mapping[Reader, Companions]"
    linear: Sequence[LinearProbe]
    pool: int

    def of_table(self, table: pd.DataFrame) -> dict[Scored, np.ndarray]:
        """Scores of the rivals that read no hidden states, float64 (n,) each.

        Args:
            table: Rollouts or responses, as `cocal.methods.recalibration.scores.SCORES` describes them.
        """
        plain = [name for name in self.rivals if RIVALS[name].reader is None]
        return {Scored(name): score(name, table, self.settings) for name in plain}

    def of_states(self, reader: FeatureReader, rows: np.ndarray) -> dict[Scored, np.ndarray]:
        """Scores of the rivals that read hidden states, float64 (n,) each.

        Args:
            reader: Feature store.
            rows: int64 (n,), ascending row numbers.
        """
        from cocal.methods.companion_scores import score_rows

        scored = score_rows(list(self.companions.values()), reader, rows)
        found = {}
        for (kind, companions), scores in zip(self.companions.items(), scored, strict=True):
            for (target, seed), values in zip(companions.members, scores, strict=True):
                found |= {Scored(name, seed): values for name in self._reading(kind, target)}
        states = states_of(reader, rows) if self.linear else None
        for probe in self.linear:
            found |= {Scored(name): probe.apply(states) for name in self._reading("linear", probe.target)}
        return found

    def estimator(self, scored: Scored) -> Estimator:
        """The columns of predictions that name a rival and its companion."""
        kind = RIVALS[scored.rival].reader
        if kind not in self.companions:
            return Estimator(scored.rival)
        spec = self.companions[kind].spec
        return Estimator(scored.rival, scored.seed, *spec.prefix, spec.layer, spec.pooling)

    def _reading(self, kind: Reader, target: Target) -> list[str]:
        known = [name for name in self.rivals if RIVALS[name].reader == kind]
        return [name for name in known if METHODS[RIVALS[name].method].target == target]


def states_of(reader: FeatureReader, rows: np.ndarray) -> np.ndarray:
    """The states that companions read by default, float32 (n, inputs): last and mean of the deepest block stored."""
    return decoded(reader.take(rows), reader.dtype)


def fit_linear(rivals: Sequence[str], rollouts: pd.DataFrame, features: FeatureReader) -> list[LinearProbe]:
    """Fit the linear probes of the rivals on the responses on which the companions are trained.

    Args:
        rivals: Names of the rivals.
        rollouts: Table from `cocal.methods.recalibration.experience.read_experience`.
        features: Feature store whose row k belongs to rollout k.

    Raises:
        ContractError: if no response is left for training or for validation.
    """
    targets = [METHODS[RIVALS[name].method].target for name in rivals if RIVALS[name].reader == "linear"]
    if not targets:
        return []
    rows = {part: np.flatnonzero(rollouts["part"] == part) for part in ("training", "held out")}
    if empty := [part for part, found in rows.items() if not len(found)]:
        raise ContractError(f"{features.path}: no response is left in the {empty[0]} part of the rollouts")
    correct, accuracy = (rollouts[name].to_numpy() for name in ("correct", "group_accuracy"))
    ours, theirs = rows["training"], rows["held out"]
    training = states_of(features, ours), correct[ours], accuracy[ours]
    validation = states_of(features, theirs), correct[theirs]
    return [LinearProbe.fit(target, training, validation) for target in targets]


def check_companions(
    companions: "Mapping[Reader, Companions]", split: CompanionSettings, steps: int, folders: Mapping[Reader, Path]
) -> None:
    """Check that companions learnt from the same steps and left out the same questions as the calibrators will assume.

    Raises:
        ContractError: if they did not, so that a calibrator might learn from a companion's own training responses.
    """
    for kind, one in companions.items():
        theirs = (one.spec.steps, one.spec.settings.split_seed, one.spec.settings.validation_share)
        ours = (steps, split.split_seed, split.validation_share)
        if theirs != ours or one.spec.order != "chronological":
            raise ContractError(
                f"{folders[kind]}: learnt from {theirs[0]} steps in {one.spec.order} order with split_seed {theirs[1]} "
                f"and validation_share {theirs[2]:g}, but the rivals are recalibrated on {ours[0]} steps in "
                f"chronological order with {ours[1]} and {ours[2]:g}; give the companions of this study"
            )


def scores_of_rollouts(
    scorer: Scorer, rollouts: pd.DataFrame, features: FeatureReader | None
) -> dict[Scored, np.ndarray]:
    """Scores of rollouts, float64 (n,) each; those of hidden states are NaN outside the held-out part.

    Args:
        scorer: What gives the scores.
        rollouts: Table from `read_experience`, with answer_class if a rival needs it.
        features: Feature store whose row k belongs to rollout k, if a rival reads them.
    """
    found = scorer.of_table(rollouts)
    if features is not None:
        rows = np.flatnonzero(rollouts["part"] == "held out")
        for scored, values in scorer.of_states(features, rows).items():
            found[scored] = np.full(len(rollouts), np.nan)
            found[scored][rows] = values
    return found


def predict_rivals(
    scorer: Scorer,
    fits: Fits,
    samples: Mapping[str, int],
    responses: Path,
    features: Path | None,
    *,
    backbone: str,
    algorithm: str,
    step: int,
) -> pd.DataFrame:
    """Compute the confidences of all rivals on one checkpoint: as they are, and by each calibrator.

    Args:
        scorer: What gives the scores.
        fits: Calibrators of the same rivals.
        samples: Number of evaluated responses per question, by question set.
        responses: Folder of the checkpoint's responses ({set}.parquet).
        features: Folder of their features ({set}.zarr), if a rival reads them.
        backbone: Name of the backbone.
        algorithm: Algorithm that trained the policy.
        step: Rollout step of the checkpoint.

    Returns:
        Table in the contract PREDICTIONS whose methods are named by `cocal.study.rivals.named`. A score without a
        calibrator, because no rollout had a score, has no valid confidence after the calibration.

    Raises:
        ContractError: if a file breaks its contract, or lacks what a rival needs.
    """
    parts = []
    for dataset, count in samples.items():
        columns = ["mean_logprob", "logprobs", "confidence", "answer_class"]
        given = read_responses(responses, dataset, count, step, columns)
        for scored, scores in _scores(scorer, given, count, features).items():
            for calibration in CALIBRATIONS:
                values = scores
                if calibration != "raw":
                    calibrator = fits.calibrator(scored, calibration)
                    values = np.full(len(scores), np.nan) if calibrator is None else calibrator.apply(scores)
                estimator = scorer.estimator(scored)._replace(method=named(scored.rival, calibration))
                parts.append(_rows(given, estimator, values))
    return pd.concat(parts, ignore_index=True).assign(backbone=backbone, algorithm=algorithm, step=step)


def _scores(scorer: Scorer, given: Responses, count: int, features: Path | None) -> dict[Scored, np.ndarray]:
    """Scores of the evaluated responses, float64 (n,) each, in the order of the rivals."""
    if not set(POOLED).isdisjoint(scorer.rivals):
        check_pool(given, scorer.pool)
    pool = given.pool.assign(
        pool=given.pool["question_id"], least_token_probability=least_token_probability(given.pool["logprobs"])
    )
    evaluated = (pool["sample"] < count).to_numpy()
    found = {scored: scores[evaluated] for scored, scores in scorer.of_table(pool).items()}
    if features is not None:
        from cocal.methods.companion_scores import match_features

        reader = open_features(features / f"{given.dataset}.zarr")
        rows = match_features(reader, given.evaluated, given.path)
        found |= {key: values[rows] for key, values in scorer.of_states(reader, np.arange(len(reader))).items()}
    return dict(sorted(found.items(), key=lambda item: (list(RIVALS).index(item[0].rival), item[0].seed)))


def _rows(given: Responses, estimator: Estimator, confidence: np.ndarray) -> pd.DataFrame:
    labels = given.evaluated[["dataset", "question_id", "response_id", *FACTS]]
    return labels.assign(**estimator._asdict(), confidence=confidence, valid=~np.isnan(confidence), p_true_mass=np.nan)
