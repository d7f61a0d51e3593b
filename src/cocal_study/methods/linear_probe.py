"""A linear probe: a logistic regression of a companion's target on its own states, learnt from the same rollouts."""

import logging
from typing import NamedTuple

import numpy as np

from cocal.companion.settings import Target
from cocal.companion.supervision import confidence_targets
from cocal_study.config.method import Baseline
from cocal_study.methods.base.responses import LabelledStates

BASELINES = tuple(
    Baseline(
        name=f"linear-{target}",
        label=f"Linear probe ({target})",
        position=position,
        method=f"cocal-{target}",
        learn=f"{__name__}:learn",
        note="The linear probe is a logistic regression of CoCal's targets on its states.",
    )
    for target, position in (("group", 80), ("binary", 90))
)
PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
"""The penalties on the squared weights that are tried, per training response."""
_ITERATIONS = 1000

logger = logging.getLogger(__name__)


def logistic(inputs: np.ndarray, targets: np.ndarray, **options) -> tuple[np.ndarray, float]:
    """Fit a logistic regression of targets between 0 and 1, float64 (n,), on inputs (n, inputs); returns the weight of
    each input and the intercept. A response with the target t counts as correct with weight t and as incorrect with
    weight 1 - t. Options are those of scikit-learn's `LogisticRegression`."""
    from sklearn.linear_model import LogisticRegression

    correct, incorrect = targets > 0, targets < 1
    model = LogisticRegression(**options).fit(
        np.concatenate([inputs[correct], inputs[incorrect]]),
        np.repeat([True, False], [correct.sum(), incorrect.sum()]),
        sample_weight=np.concatenate([targets[correct], 1 - targets[incorrect]]),
    )
    return model.coef_[0], model.intercept_[0]


class LinearProbe(NamedTuple):
    """A fitted probe: the confidence of states x is 1 / (1 + exp(-(w x + b)))."""

    weights: tuple[float, ...]
    """The weight w of each state."""
    intercept: float

    def apply(self, states: np.ndarray) -> np.ndarray:
        """The confidences of states (n, inputs), float64 (n,) in [0, 1]."""
        logits = states.astype(np.float64) @ np.array(self.weights) + self.intercept
        with np.errstate(over="ignore"):  # exp of a large number gives a confidence of 0
            return 1 / (1 + np.exp(-logits))


def learn(target: Target | None, training: LabelledStates, validation: LabelledStates) -> LinearProbe:
    """Fit a probe for the target of a companion with each penalty, and keep that of the lowest squared error against
    correctness on validation, the criterion by which companions choose their best pass. Neither part is empty."""
    states, correct, group_accuracy, _ = training
    targets = confidence_targets(target or "binary", correct, group_accuracy).astype(np.float64)
    if np.ptp(targets) == 0:
        share = (targets.sum() + 1) / (len(targets) + 2)
        return LinearProbe((0.0,) * states.shape[1], float(np.log(share / (1 - share))))
    fitted = [penalised(penalty, states, targets) for penalty in PENALTIES]
    errors = [float(((probe.apply(validation.states) - validation.correct) ** 2).mean()) for probe in fitted]
    best = int(np.argmin(errors))
    logger.info("linear probe (%s): penalty %g, %.4f in validation", target, PENALTIES[best], errors[best])
    return fitted[best]


def penalised(penalty: float, states: np.ndarray, targets: np.ndarray) -> LinearProbe:
    """Fit the probe with one penalty. The states are standardised, as by the normalisation in a companion's first
    layer."""
    mean, spread = states.mean(axis=0, dtype=np.float64), states.std(axis=0, dtype=np.float64)
    spread[spread == 0] = 1.0
    standard = ((states - mean) / spread).astype(np.float32)
    coefficients, intercept = logistic(standard, targets, C=1 / (penalty * len(states)), max_iter=_ITERATIONS)
    weights = coefficients.astype(np.float64) / spread
    return LinearProbe(tuple(weights.tolist()), float(intercept) - float(weights @ mean))
