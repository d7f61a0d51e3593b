"""The length of a response: the shorter a response, the more likely it is correct (a rival of tables/recalibrated)."""

import numpy as np
from numpy.typing import ArrayLike


def inverse_length(length: ArrayLike) -> np.ndarray:
    """Compute 1 / length, float64 (n,) in (0, 1], which ranks responses by their length and means nothing else.

    Args:
        length: int64 (n,), number of tokens of each response, with the generated end-of-sequence token.
    """
    return 1 / np.asarray(length, dtype=np.float64)
