"""Scores of companions on the rollout step that follows those that they have learnt from (prequential evaluation)."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from cocal.companion.companions import Companions
from cocal.config.evaluation import Target
from cocal.features.store import FeatureReader
from cocal.metrics.calibration import evaluate

COLUMNS = ("source_step", "step", "target", "seed", "responses", "accuracy", "mean_confidence", "ece", "auroc")
"""Columns of `scores`."""


def scores(
    members: Sequence[tuple[Target, int]], confidence: np.ndarray, correct: np.ndarray, bins: int, source_step: int
) -> pd.DataFrame:
    """Score confidences in the responses of the rollout step that follows those learnt from, truncated ones included.

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
    rows = [
        {"source_step": source_step, "step": source_step + 1, "target": target, "seed": seed, "responses": len(correct)}
        | evaluate(values, valid, correct, bins)
        for (target, seed), values in zip(members, confidence, strict=True)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def summary(found: pd.DataFrame) -> str:
    """Return the `scores` of the first target on one step in words, for a line of progress."""
    means = found[found["target"] == found["target"].iloc[0]][["ece", "auroc"]].mean()
    return f"before learning from it: ECE {means['ece']:.3f}, AUROC {means['auroc']:.3f}"


def replayed(
    fits: Iterable[Companions], features: FeatureReader, rollouts: pd.DataFrame, bins: int
) -> Iterator[pd.DataFrame]:
    """Score replayed companions on the rollouts of the step after their own; see `scores`.

    The column kept_bytes says how large the states are that replaying keeps: those of all their responses.
    Companions of the last step have no next one, and are passed over.
    """
    steps, last = rollouts["step"].to_numpy(), int(rollouts["step"].iloc[-1])
    for one in fits:
        spec = one.spec
        if spec.steps >= last:
            continue
        start, stop = np.searchsorted(steps, [spec.steps + 1, spec.steps + 2]).tolist()
        confidence = one.predict(features.read(start, stop, layer=spec.layer, poolings=spec.poolings))
        found = scores(one.members, confidence, rollouts["correct"].to_numpy()[start:stop], bins, spec.steps)
        yield found.assign(kept_bytes=start * spec.inputs * features.itemsize)
