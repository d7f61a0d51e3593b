"""Scores of companions on the rollout step that follows those that they have learnt from (prequential evaluation)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cocal.metrics.calibration import evaluate

if TYPE_CHECKING:
    from cocal.config.evaluation import Target


def scores(
    members: "Sequence[tuple[Target, int]]", confidence: np.ndarray, correct: np.ndarray, bins: int, source_step: int
) -> pd.DataFrame:
    """Score the confidences in the responses of one rollout step, truncated ones included.

    Args:
        members: Target and seed of each member.
        confidence: float64 (members, n) in [0, 1].
        correct: bool (n,), verdicts on the responses.
        bins: Number of bins of the calibration error.
        source_step: Number of rollout steps that were learnt from; the responses are those of the next one.

    Returns:
        One row for each member, with the columns source_step, step (of the responses), target, seed, responses,
        accuracy, mean_confidence, ece and auroc; the AUROC is NaN where all responses are correct or all are wrong.
    """
    valid = np.ones(len(correct), dtype=bool)
    rows = []
    for (target, seed), values in zip(members, confidence, strict=True):
        about = {"source_step": source_step, "step": source_step + 1, "target": target, "seed": seed}
        rows.append(about | {"responses": len(correct)} | evaluate(values, valid, correct, bins))
    return pd.DataFrame(rows, columns=COLUMNS)


COLUMNS = ("source_step", "step", "target", "seed", "responses", "accuracy", "mean_confidence", "ece", "auroc")
"""Columns of `scores`."""
