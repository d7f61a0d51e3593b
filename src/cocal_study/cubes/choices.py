"""The quality of choices by confidence (`cocal.metrics.choices`): accuracy of what is kept, results of thresholds."""

import numpy as np

from cocal.metrics.choices import candidates, certified
from cocal.metrics.ordered import Ordered


def kept_accuracy(confidence: np.ndarray, correct: np.ndarray, sent: float, counts: np.ndarray) -> np.ndarray:
    """Accuracy of the responses to the kept questions, in every resample of the questions.

    If the share is no whole number of questions, the last one is kept in part; so are questions with equal confidences.

    Args:
        confidence: float64 (q,), confidence of each question, such as one before anything is generated; NaN where
            there is none, which ranks below all others.
        correct: bool (q,), whether the response to each question is correct.
        sent: Share of the questions that is sent elsewhere, from 0 to below 1.
        counts: int32 [q, resamples], how often each resample holds each question.

    Returns:
        float64 [resamples].
    """
    ordered = Ordered.of(np.arange(len(correct)), np.nan_to_num(confidence, nan=-1.0), correct)
    return 1 - ordered.counted(counts).risk_at(1 - sent)


def tried(
    confidence: np.ndarray,
    correct: np.ndarray,
    *,
    max_risk: float,
    delta: float,
    splits: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Measure what certified thresholds achieve: a random half of the questions certifies one for the other half.

    Args:
        confidence: float64 [seeds, q], confidence of each question's response by each of several companions.
        correct: bool (q,), whether that response is correct.
        max_risk, delta: See `certified`.

    Returns:
        float64 [splits, 3]: share of the questions that are answered, share of wrong ones among these (NaN if there are
        none), and whether a threshold is certified; means over the seeds.
    """
    half, outcomes = len(correct) // 2, np.empty((splits, len(confidence), 3))
    for split in range(splits):
        order = generator.permutation(len(correct))
        old, new = order[:half], order[half:]
        for place, values in enumerate(confidence):
            threshold = certified(values[old], correct[old], candidates(values[new]), max_risk=max_risk, delta=delta)
            answered = values[new] >= (np.inf if threshold is None else threshold)
            risk = (~correct[new][answered]).mean() if answered.any() else np.nan
            outcomes[split, place] = answered.mean(), risk, threshold is not None
    some = ~np.isnan(outcomes[:, :, 1])
    risks = np.where(some, outcomes[:, :, 1], 0).sum(axis=1) / np.where(some.any(axis=1), some.sum(axis=1), np.nan)
    return np.column_stack([outcomes[:, :, 0].mean(axis=1), risks, outcomes[:, :, 2].mean(axis=1)])
