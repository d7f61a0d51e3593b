"""Confidences that the responses of Verbal, Base + Verbal, RLCR and DCPO state (section 5, appendix B.2).

Each method has responses of its own policy in its own format. A response without a valid confidence counts in accuracy
and is left out of the confidence metrics (appendix A.2).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cocal_study.config.evaluation import EstimatorSettings
from cocal_study.config.method import Method
from cocal_study.methods.base.responses import Estimator, Inputs, Responses


def score(table: pd.DataFrame, settings: EstimatorSettings) -> np.ndarray:
    """Return the confidences that were parsed from the responses, float64 (n,), NaN without a valid one."""
    return table["confidence"].to_numpy(dtype=np.float64)


def estimate(methods: Sequence[Method], responses: Responses, inputs: Inputs) -> dict[Estimator, np.ndarray]:
    """Return the `score` of the evaluated responses."""
    stated = score(responses.evaluated, inputs.settings)
    return {Estimator(method.name): stated for method in methods}
