"""The linear probe: a logistic regression of the confidence target on the companion's own states."""

import logging
from typing import Annotated

import numpy as np
from pydantic import Field

from cocal.companion.supervision import confidence_targets
from cocal.config.base import Model
from cocal.config.method import Target
from cocal.methods.recalibration.calibrators import logistic

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
