"""P(True) from the log-probabilities of the words "True" and "False" (appendix B.1)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class PTrue(NamedTuple):
    """P(True) of n responses; both fields are float64 (n,) in [0, 1].

    Attributes:
        ratio: p_T / (p_T + p_F), the confidence.
        mass: p_T + p_F. If it is small, the policy prefers neither word and the ratio says little.
    """

    ratio: np.ndarray
    mass: np.ndarray


def p_true(log_true: ArrayLike, log_false: ArrayLike) -> PTrue:
    """Compute P(True) without underflow for tiny probabilities.

    Args:
        log_true: (n,), finite log-probability of the next token "True".
        log_false: (n,), finite log-probability of the next token "False".
    """
    log_true = np.asarray(log_true, dtype=np.float64)
    log_mass = np.logaddexp(log_true, np.asarray(log_false, dtype=np.float64))
    return PTrue(np.exp(log_true - log_mass), np.exp(np.minimum(log_mass, 0.0)))  # the sum may round above 1
