"""TokenProb: the mean token-level generation probability (appendix B.1)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cocal.config.methods import Method
from cocal.estimators.responses import Estimator, Inputs, Responses

COLUMNS = ("mean_logprob",)


def token_probability(mean_logprob: ArrayLike) -> np.ndarray:
    """exp of the mean raw log-probability of the response tokens, the generated end-of-sequence token included.

    Args:
        mean_logprob: (n,), at most 0; that it is the mean over all tokens is a rule of the responses' contract.

    Returns:
        float64 (n,) in [0, 1].
    """
    return np.exp(np.asarray(mean_logprob, dtype=np.float64))


def estimate(methods: Sequence[Method], responses: Responses, inputs: Inputs) -> dict[Estimator, np.ndarray]:
    """`token_probability` of the evaluated responses."""
    confidence = token_probability(responses.evaluated["mean_logprob"])
    return {Estimator(method.name): confidence for method in methods}
