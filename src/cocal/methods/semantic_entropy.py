"""Semantic entropy: how evenly sampled answers spread over their meanings (a rival of tables/recalibrated).

This is the discrete semantic entropy of Farquhar et al., "Detecting hallucinations in large language models using
semantic entropy" (Nature 630, 2024), after Kuhn et al., "Semantic uncertainty" (ICLR 2023): the entropy of the
shares of a question's sampled answers that fall into each class of equivalent answers.
"""

import numpy as np
import pandas as pd

from cocal.config.evaluation import EstimatorSettings


def score(table: pd.DataFrame, settings: EstimatorSettings) -> np.ndarray:
    """Compute 1 - H / log(n) of each response's pool, where H is the entropy of its classes and n its size.

    All responses of a pool have the same value: 1 if all answers are equivalent, 0 if no two are. A response without an
    answer (class -1) counts as a class of its own, since it agrees with none.

    Returns:
        float64 (n,) in [0, 1]; NaN for a pool of one response.
    """
    labels = table["answer_class"].to_numpy(dtype=np.int64)
    own_class = np.where(labels < 0, -1 - np.arange(len(labels)), labels)
    classes = pd.DataFrame({"pool": table["pool"].to_numpy(), "answer_class": own_class})
    sizes = classes.groupby("pool", sort=False)["pool"].transform("size").to_numpy(dtype=np.float64)
    shares = classes.groupby(["pool", "answer_class"], sort=False)["pool"].transform("size").to_numpy() / sizes
    # every response of a class adds its part of -p log p, so that the sum over responses is the sum over classes
    classes["part"] = -np.log(shares) / sizes
    entropy = classes.groupby("pool", sort=False)["part"].transform("sum").to_numpy()
    with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 of a pool of one
        return (1 - entropy / np.log(sizes)).clip(0.0, 1.0)
