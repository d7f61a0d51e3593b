"""P(True): the policy's own judgement of its fixed response (appendix B.1)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cocal.errors import ContractError
from cocal.estimators.registry import Method
from cocal.estimators.responses import Estimator, Inputs, Responses

COLUMNS = ("p_true", "p_true_mass")


class PTrue(NamedTuple):
    """P(True) of n responses and what it rests on, float64 (n,) in [0, 1] each.

    Attributes:
        ratio: p_T / (p_T + p_F), the confidence.
        mass: p_T + p_F; where it is small, the policy wants neither word and the ratio says little.
    """

    ratio: np.ndarray
    mass: np.ndarray


def p_true(log_true: ArrayLike, log_false: ArrayLike) -> PTrue:
    """P(True), without underflow where both probabilities are tiny.

    Args:
        log_true: log-probability of the next token True, (n,), finite.
        log_false: of False.
    """
    log_true = np.asarray(log_true, dtype=np.float64)
    log_mass = np.logaddexp(log_true, np.asarray(log_false, dtype=np.float64))
    return PTrue(np.exp(log_true - log_mass), np.exp(np.minimum(log_mass, 0.0)))  # rounding may exceed 1


def estimate(methods: Sequence[Method], responses: Responses, inputs: Inputs) -> dict[Estimator, np.ndarray]:
    """P(True) as it was measured with the responses.

    Raises:
        ContractError: if an evaluated response was not asked about.
    """
    confidence = responses.evaluated["p_true"].to_numpy(dtype=np.float64)
    missing = np.isnan(confidence)
    if missing.any():
        raise ContractError(
            f"{responses.path}: column 'p_true' is null for {missing.sum()} evaluated response(s), first "
            f"response_id {responses.evaluated['response_id'][missing].iloc[0]}; sample the responses with p_true"
        )
    return {Estimator(method.name): confidence for method in methods}
