"""Semantic entropy: how evenly sampled answers spread over their meanings (a rival of tables/recalibrated).

This is the discrete semantic entropy of Farquhar et al., "Detecting hallucinations in large language models using
semantic entropy" (Nature 630, 2024), after Kuhn et al., "Semantic uncertainty" (ICLR 2023): the entropy of the
shares of a question's sampled answers that fall into each class of equivalent answers.
"""

from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike


def semantic_certainty(classes: ArrayLike, pools: Sequence[Hashable]) -> np.ndarray:
    """Compute 1 - H / log(n) of each response's pool, where H is the entropy of its classes and n its size.

    All responses of a pool have the same value: 1 if all answers are equivalent, 0 if no two are. A response without an
    answer counts as a class of its own, since it agrees with none.

    Args:
        classes: int64 (n,), class of each answer; equivalent answers in a pool have the same class. It is -1 without an
            answer.
        pools: Pool of each response, such as its question's id.

    Returns:
        float64 (n,) in [0, 1]; NaN for a pool of one response.
    """
    labels = np.asarray(classes, dtype=np.int64)
    alone = labels < 0
    table = pd.DataFrame({"pool": pools, "answer_class": np.where(alone, -1 - np.arange(len(labels)), labels)})
    sizes = table.groupby("pool", sort=False)["pool"].transform("size").to_numpy(dtype=np.float64)
    shares = table.groupby(["pool", "answer_class"], sort=False)["pool"].transform("size").to_numpy() / sizes
    # every response of a class adds its part of -p log p, so that the sum over responses is the sum over classes
    table["part"] = -np.log(shares) / sizes
    entropy = table.groupby("pool", sort=False)["part"].transform("sum").to_numpy()
    with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 of a pool of one
        return (1 - entropy / np.log(sizes)).clip(0.0, 1.0)
