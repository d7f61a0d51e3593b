"""Calibrators: maps from a score to a confidence, fitted by scikit-learn and kept as a few numbers."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from cocal.config.base import Model


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
"""The function that fits each calibration."""
