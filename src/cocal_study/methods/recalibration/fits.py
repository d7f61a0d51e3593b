"""Calibrators and linear probes that learn from rollouts, and the file that keeps those of a policy's rivals.

Calibrators are maps from a score to a confidence, fitted by scikit-learn and kept as a few numbers. A linear probe is a
logistic regression of the confidence target on the companion's own states.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field, ValidationError

from cocal.companion.settings import Target
from cocal.companion.supervision import confidence_targets
from cocal.errors import ContractError
from cocal.settings.base import Count, Model, Share
from cocal.store import digest, read_document
from cocal.store.damage import remedy
from cocal_study.methods.responses import Estimator
from cocal_study.planning.rivals import CALIBRATIONS, RIVALS, Basis, Kind

Part = Literal["training", "held out", "truncated"]
"""The rows on which companions are trained, those that choose their best pass, and those that they leave out."""


def logistic(inputs: np.ndarray, targets: np.ndarray, **options) -> tuple[np.ndarray, float]:
    """Fit a logistic regression of targets between 0 and 1.

    Args:
        inputs: float (n, inputs).
        targets: float64 (n,); a response with the target t counts as correct with weight t and as incorrect with weight
            1 - t.
        options: Arguments of scikit-learn's `LogisticRegression`.

    Returns:
        The weight of each input and the intercept.
    """
    from sklearn.linear_model import LogisticRegression

    correct, incorrect = targets > 0, targets < 1
    model = LogisticRegression(**options).fit(
        np.concatenate([inputs[correct], inputs[incorrect]]),
        np.repeat([True, False], [correct.sum(), incorrect.sum()]),
        sample_weight=np.concatenate([targets[correct], 1 - targets[incorrect]]),
    )
    return model.coef_[0], model.intercept_[0]


class Platt(Model):
    """Platt scaling (Platt, "Probabilistic outputs for support vector machines", 1999): 1 / (1 + exp(-(a s + b)))."""

    kind: Literal["platt"] = "platt"
    slope: float
    """The factor a of the score s."""
    intercept: float
    """The summand b."""

    @classmethod
    def fit(cls, scores: np.ndarray, correct: np.ndarray) -> "Platt":
        """Fit a logistic regression of correctness on the score, without regularisation.

        As Platt proposes, the targets are (n1 + 1) / (n1 + 2) and 1 / (n0 + 2) for n1 correct and n0 incorrect
        responses in place of 1 and 0, so that the fit is finite even if the score separates them or one is missing.

        Args:
            scores: float64 (n,), finite, at least one.
            correct: bool (n,).
        """
        right = int(correct.sum())
        targets = np.where(correct, (right + 1) / (right + 2), 1 / (len(correct) - right + 2))
        mean, spread = scores.mean(), scores.std()
        if spread == 0 or np.ptp(scores) == 0:
            return cls(slope=0.0, intercept=float(np.log(targets.mean() / (1 - targets.mean()))))
        standard = ((scores - mean) / spread)[:, None]
        (weight,), intercept = logistic(standard, targets, C=np.inf, solver="newton-cholesky", tol=1e-10)
        slope = float(weight / spread)
        return cls(slope=slope, intercept=float(intercept - slope * mean))

    def apply(self, scores: np.ndarray) -> np.ndarray:
        """The confidences of scores, float64 (n,) in [0, 1]; NaN where the score is NaN."""
        with np.errstate(over="ignore"):  # exp of a large number gives a confidence of 0
            return 1 / (1 + np.exp(-(self.slope * scores + self.intercept)))


class Isotonic(Model):
    """Isotonic regression (Zadrozny and Elkan, KDD 2002): the increasing map of least squared error, linear between its
    knots and constant beyond the first and the last."""

    kind: Literal["isotonic"] = "isotonic"
    scores: tuple[float, ...]
    """Scores of the knots, ascending."""
    confidences: tuple[float, ...]
    """Confidences of the knots."""

    @classmethod
    def fit(cls, scores: np.ndarray, correct: np.ndarray) -> "Isotonic":
        """Fit the map; for the arguments see `Platt.fit`."""
        from sklearn.isotonic import IsotonicRegression

        model = IsotonicRegression(y_min=0.0, y_max=1.0, increasing=True, out_of_bounds="clip")
        model.fit(scores, correct.astype(np.float64))
        return cls(scores=tuple(model.X_thresholds_.tolist()), confidences=tuple(model.y_thresholds_.tolist()))

    def apply(self, scores: np.ndarray) -> np.ndarray:
        """The confidences of scores, float64 (n,) in [0, 1]; NaN where the score is NaN."""
        # NumPy gives NaN the value of a single knot
        return np.where(np.isnan(scores), np.nan, np.interp(scores, self.scores, self.confidences))


Calibrator = Annotated[Platt | Isotonic, Field(discriminator="kind")]

FITS = {"platt": Platt.fit, "isotonic": Isotonic.fit}
"""The function that fits each calibrator."""


PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
"""The penalties on the squared weights that are tried, per training response."""
_ITERATIONS = 1000

logger = logging.getLogger(__name__)


class LinearProbe(Model):
    """A fitted probe: the confidence of states x is 1 / (1 + exp(-(w x + b)))."""

    target: Target
    penalty: Annotated[float, Field(ge=0)]
    """The chosen one of `PENALTIES`; 0 if there was nothing to learn, because all targets are alike."""
    weights: tuple[float, ...]
    """The weight w of each state."""
    intercept: float

    @classmethod
    def fit(
        cls,
        target: Target,
        training: tuple[np.ndarray, np.ndarray, np.ndarray],
        validation: tuple[np.ndarray, np.ndarray],
    ) -> "LinearProbe":
        """Fit a probe for each penalty and keep that of the lowest squared error against correctness on validation,
        the criterion by which companions choose their best pass.

        The states are standardised, which the companions do by the normalisation of their first layer.

        Args:
            target: Target of the companion ("group" or "binary").
            training: States float32 (n, inputs), correctness bool (n,) and group accuracies float64 (n,).
            validation: States float32 (m, inputs) and correctness bool (m,).
        """
        states, correct, group_accuracy = training
        targets = confidence_targets(target, correct, group_accuracy).astype(np.float64)
        if np.ptp(targets) == 0:
            share = (targets.sum() + 1) / (len(targets) + 2)
            constant = float(np.log(share / (1 - share)))
            return cls(target=target, penalty=0.0, weights=(0.0,) * states.shape[1], intercept=constant)
        fitted = [cls._of(target, penalty, states, targets) for penalty in PENALTIES]
        errors = [float(((one.apply(validation[0]) - validation[1]) ** 2).mean()) for one in fitted]
        best = int(np.argmin(errors))
        logger.info("linear probe (%s): penalty %g, %.4f in validation", target, PENALTIES[best], errors[best])
        return fitted[best]

    @classmethod
    def _of(cls, target: Target, penalty: float, states: np.ndarray, targets: np.ndarray) -> "LinearProbe":
        mean, spread = states.mean(axis=0, dtype=np.float64), states.std(axis=0, dtype=np.float64)
        spread[spread == 0] = 1.0
        standard = ((states - mean) / spread).astype(np.float32)
        found, intercept = logistic(standard, targets, C=1 / (penalty * len(states)), max_iter=_ITERATIONS)
        weights = found.astype(np.float64) / spread
        intercept = float(intercept) - float(weights @ mean)
        return cls(target=target, penalty=penalty, weights=tuple(weights.tolist()), intercept=intercept)

    def apply(self, states: np.ndarray) -> np.ndarray:
        """The confidences of states (n, inputs), float64 (n,) in [0, 1]."""
        logits = states.astype(np.float64) @ np.array(self.weights) + self.intercept
        with np.errstate(over="ignore"):  # exp of a large number gives a confidence of 0
            return 1 / (1 + np.exp(-logits))


class Responses(Model):
    """The responses of one part of the rollouts, from which calibrators may learn."""

    responses: int
    questions: int
    digest: str
    """Digest of their response ids, in order."""

    @classmethod
    def of(cls, rollouts: pd.DataFrame) -> "Responses":
        """Those of a table with the columns response_id and question."""
        ids = rollouts["response_id"].tolist()
        return cls(responses=len(ids), questions=rollouts["question"].nunique(), digest=digest(ids))


class Learnt(Model):
    """The responses of one basis."""

    first: Count
    """First step of the responses."""
    last: Count
    """Last step of the responses."""
    parts: dict[Part, Responses]

    @classmethod
    def of(cls, table: pd.DataFrame) -> "Learnt":
        """Those of a table with the columns step, response_id, question and part."""
        parts = {name: Responses.of(table[table["part"] == name]) for name in ("training", "held out")}
        return cls(first=int(table["step"].min()), last=int(table["step"].max()), parts=parts)


class Fit(Model):
    """The calibrators of one rival and companion's seed on one basis."""

    rival: str
    seed: int
    """The companion's training seed; -1 without a companion."""
    basis: Basis
    part: Part
    """Part of its responses that they learnt from."""
    responses: Count
    """Number of the part's responses that have a score."""
    correct: Share
    """Share of correct responses among them."""
    calibrators: dict[Kind, Calibrator]


class Fits(Model):
    """All calibrators of the rivals on one policy."""

    linear: tuple[LinearProbe, ...] = ()
    """The linear probes among the rivals."""
    learnt: dict[Basis, Learnt]
    fits: tuple[Fit, ...]

    def apply(self, rival: str, seed: int, calibration: str, scores: np.ndarray) -> np.ndarray:
        """The calibrated confidences of scores, float64 (n,); NaN if no response had a score to learn from."""
        kind, basis = CALIBRATIONS[calibration]
        fits = [fit for fit in self.fits if (fit.rival, fit.seed, fit.basis) == (rival, seed, basis)]
        return fits[0].calibrators[kind].apply(scores) if fits else np.full(len(scores), np.nan)


def part_of(rival: str) -> Part:
    """The part of a basis that a rival's calibrators learn from.

    That is the training part, unless the score itself was learnt there: then it is the held-out part, whose labels a
    companion or probe has seen only to choose its best pass or penalty.
    """
    return "held out" if RIVALS[rival].reader else "training"


def fit_rivals(
    experience: Mapping[Basis, tuple[pd.DataFrame, Mapping[Estimator, np.ndarray]]], linear: Sequence[LinearProbe] = ()
) -> Fits:
    """Fit the calibrators of all scores, each on its `part_of` a basis.

    Args:
        experience: For each basis rows of a table from `cocal_study.methods.recalibration.confidences.read_experience`,
        and
            float64 (n,) for each rival and companion: the scores of these rows, NaN where there is none.
        linear: The linear probes that gave scores.
    """
    fits = []
    for basis, (table, scores) in experience.items():
        for rival, values in scores.items():
            part = part_of(rival.method)
            rows = (table["part"] == part).to_numpy() & ~np.isnan(values)
            if rows.any():
                known, correct = values[rows], table["correct"].to_numpy()[rows]
                fits.append(
                    Fit(
                        rival=rival.method,
                        seed=rival.seed,
                        basis=basis,
                        part=part,
                        responses=int(rows.sum()),
                        correct=float(correct.mean()),
                        calibrators={name: fit(known, correct) for name, fit in FITS.items()},
                    )
                )
    learnt = {basis: Learnt.of(table) for basis, (table, _) in experience.items()}
    return Fits(linear=tuple(linear), learnt=learnt, fits=tuple(fits))


def read_fits(path: str | Path) -> Fits:
    """Read the file of `cocal recalibrate`.

    Raises:
        ContractError: if it is missing, has changed since it was written, or holds no calibrators.
    """
    content = read_document(path, maker="the rule that recalibrates the rivals")
    try:
        return Fits.model_validate(content)
    except ValidationError as error:
        raise ContractError(f"{path}: holds no valid calibrators ({error}); {remedy(path)}") from None
