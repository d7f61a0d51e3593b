"""Calibrators that learn from rollouts, and the file that keeps those of a policy's baselines.

Calibrators are maps from a score to a confidence, fitted by scikit-learn and kept as a few numbers.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from cocal.settings.base import Count, Model
from cocal_study.methods.base.responses import Estimator
from cocal_study.methods.linear_probe import logistic
from cocal_study.planning.baselines import BASELINES, CALIBRATIONS, Basis, Kind

Part = Literal["training", "held out", "truncated"]
"""The rows on which companions are trained, those that choose their best pass, and those that they leave out."""


class Platt(Model):
    """Platt scaling (Platt, "Probabilistic outputs for support vector machines", 1999): 1 / (1 + exp(-(a s + b)))."""

    kind: Literal["platt"] = "platt"
    slope: float
    """The factor a of the score s."""
    intercept: float
    """The summand b."""

    @classmethod
    def fit(cls, scores: np.ndarray, correct: np.ndarray) -> "Platt":
        """Fit a logistic regression of correctness, bool (n,), on the score, finite float64 (n,), without
        regularisation.

        As Platt proposes, the targets are (n1 + 1) / (n1 + 2) and 1 / (n0 + 2) for n1 correct and n0 incorrect
        responses in place of 1 and 0, so that the fit is finite even if the score separates them or one is missing.
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

FITS: dict[Kind, Any] = {"platt": Platt.fit, "isotonic": Isotonic.fit}
"""The function that fits each calibrator."""


class Fit(Model):
    """The calibrators of one baseline and companion's seed on one basis."""

    baseline: str
    seed: int
    """The companion's training seed; -1 without a companion."""
    basis: Basis
    part: Part
    """Part of its responses that they learnt from."""
    responses: Count
    """Number of the part's responses that have a score."""
    calibrators: dict[Kind, Calibrator]


class Fits(Model):
    """All calibrators of the baselines on one policy."""

    bases: tuple[Basis, ...]
    """The bases that were given, also one whose responses gave no calibrator."""
    fits: tuple[Fit, ...]

    def apply(self, baseline: str, seed: int, calibration: str, scores: np.ndarray) -> np.ndarray:
        """The calibrated confidences of scores, float64 (n,); NaN if no response had a score to learn from."""
        kind, basis = CALIBRATIONS[calibration]
        fits = [fit for fit in self.fits if (fit.baseline, fit.seed, fit.basis) == (baseline, seed, basis)]
        return fits[0].calibrators[kind].apply(scores) if fits else np.full(len(scores), np.nan)


def part_of(baseline: str) -> Part:
    """The part of a basis that a baseline's calibrators learn from: the training part, unless the score itself was
    learnt there; then the held-out part, whose labels have only chosen a companion's best pass or a probe's penalty."""
    return "held out" if BASELINES[baseline].reads_states else "training"


def fit_baselines(experience: Mapping[Basis, tuple[pd.DataFrame, Mapping[Estimator, np.ndarray]]]) -> Fits:
    """Fit the calibrators of all scores, each on its `part_of` a basis. By basis, `experience` has rows of a table from
    `cocal_study.methods.recalibration.confidences.read_experience` and, for each baseline and companion, the scores of
    these rows, float64 (n,), NaN where there is none."""
    fits = []
    for basis, (table, scores) in experience.items():
        for baseline, values in scores.items():
            part = part_of(baseline.method)
            rows = (table["part"] == part).to_numpy() & ~np.isnan(values)
            if rows.any():
                known, correct = values[rows], table["correct"].to_numpy()[rows]
                fits.append(
                    Fit(
                        baseline=baseline.method,
                        seed=baseline.seed,
                        basis=basis,
                        part=part,
                        responses=int(rows.sum()),
                        calibrators={name: fit(known, correct) for name, fit in FITS.items()},
                    )
                )
    return Fits(bases=tuple(experience), fits=tuple(fits))
