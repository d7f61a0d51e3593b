"""P(True) from the log-probabilities of its two words (appendix B.1)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


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
