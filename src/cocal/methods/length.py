"""The length of a response: the shorter a response, the more likely it is correct (a rival of tables/recalibrated)."""

import numpy as np
import pandas as pd

from cocal.config.evaluation import EstimatorSettings


def score(table: pd.DataFrame, settings: EstimatorSettings) -> np.ndarray:
    """Compute 1 / length, float64 (n,) in (0, 1], which ranks responses by their length and means nothing else.

    The length counts the tokens of a response, with the generated end-of-sequence token.
    """
    return 1 / table["length"].to_numpy(dtype=np.float64)
