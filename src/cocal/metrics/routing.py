"""Routing: the questions with the lowest confidences are sent elsewhere, the others are kept."""

import numpy as np

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
