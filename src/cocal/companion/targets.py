"""Confidence targets (section 4.2, supervision construction)."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from cocal.config.evaluation import Target


def confidence_targets(target: "Target", correct: np.ndarray, group_accuracy: np.ndarray) -> np.ndarray:
    """What a companion of `target` learns to predict.

    binary: the correctness y. group: the accuracy of the response's group if y = 1, else 0. question: the accuracy
    of the group whatever y is, for there is no response yet (appendix F.4).

    Args:
        correct: bool (n,), or the mean correctness of a question's responses.
        group_accuracy: float (n,), in [0, 1], of the original group of responses, before truncated ones are
            filtered out (appendix A.1).

    Returns:
        float32 (n,), in [0, 1].
    """
    if target == "binary":
        return np.asarray(correct, dtype=np.float32)
    if target == "question":
        return np.asarray(group_accuracy, dtype=np.float32)
    return np.where(correct, group_accuracy, 0.0).astype(np.float32)
