"""Confidence targets (section 4.2, supervision construction)."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from cocal.config.evaluation import Target


def confidence_targets(target: "Target", correct: np.ndarray, group_accuracy: np.ndarray) -> np.ndarray:
    """Compute the values that a companion with this target learns to predict, float32 (n,) in [0, 1].

    The target "binary" is the correctness y, "group" is the accuracy of the response's group if y = 1 and 0 otherwise,
    and "question" is the accuracy of the group in either case, since there is no response yet (appendix F.4).

    Args:
        target: Name of the target.
        correct: bool (n,), correctness of each response; ignored for the target "question".
        group_accuracy: float (n,) in [0, 1], accuracy of each response's original group, before truncated responses
            are filtered out (appendix A.1).
    """
    if target == "binary":
        return np.asarray(correct, dtype=np.float32)
    if target == "question":
        return np.asarray(group_accuracy, dtype=np.float32)
    return np.where(correct, group_accuracy, 0.0).astype(np.float32)
