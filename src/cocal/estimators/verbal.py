"""Verbal and Base + Verbal: the confidence that the response states itself (section 5).

Both are read from responses in the confidence-reporting format. A response without a valid confidence has none: it
counts in accuracy and is left out of the confidence metrics (appendix A.2).
"""

from collections.abc import Sequence

import numpy as np

from cocal.estimators.registry import Method
from cocal.estimators.responses import Inputs, Responses

COLUMNS = ("confidence",)


def estimate(methods: Sequence[Method], responses: Responses, inputs: Inputs) -> dict[tuple[str, int], np.ndarray]:
    """The parsed confidences, NaN without a valid one."""
    stated = responses.evaluated["confidence"].to_numpy(dtype=np.float64)
    return {(method.name, -1): stated for method in methods}
