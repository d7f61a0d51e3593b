"""Metric definitions (appendix A.2). Everything is computed in float64.

Bins are right-closed, so a confidence of m/10 belongs to bin m. That holds in float64 alone: stored as float32,
1/10, 2/10, 3/10, 4/10, 6/10 and 8/10 lie just above the float64 edge and would fall into the next bin, and no
later cast can repair it. Confidences that are not float64 are therefore refused, not converted.
"""

from typing import NamedTuple

import numpy as np

METRICS = ("accuracy", "mean_confidence", "ece", "auroc")
"""Names of the metrics, in the order of the main table."""


class ReliabilityBins(NamedTuple):
    """What a reliability diagram shows, one entry a bin.

    Attributes:
        count: int64 [bins], responses in the bin.
        accuracy: float64 [bins], NaN for an empty bin.
        mean_confidence: float64 [bins], NaN for an empty bin.
    """

    count: np.ndarray
    accuracy: np.ndarray
    mean_confidence: np.ndarray


def bin_edges(bins: int) -> np.ndarray:
    """The `bins` + 1 edges 0, 1/bins, ..., 1, each the float64 nearest to the fraction."""
    return np.arange(bins + 1) / bins


def bin_index(confidence: np.ndarray, bins: int) -> np.ndarray:
    """Zero-based index of the equal-width, right-closed bin: [0, 1/bins], (1/bins, 2/bins], ...

    Args:
        confidence: float64 [n] in [0, 1].

    Returns:
        int64 [n].

    Raises:
        TypeError: if `confidence` is not float64 (see the module's docstring).
        ValueError: if a confidence is NaN or outside [0, 1].
    """
    confidence = _checked(confidence)
    return np.searchsorted(bin_edges(bins)[1:-1], confidence, side="left")


def expected_calibration_error(confidence: np.ndarray, correct: np.ndarray, bins: int = 10) -> float:
    """Expected calibration error (appendix A.2) over valid confidences; NaN without any.

    A bin's share times |accuracy - mean confidence| is |sum of (correct - confidence)| / n, so that empty bins
    need no care.

    Args:
        confidence: float64 [n] in [0, 1].
        correct: bool [n].
    """
    index = bin_index(confidence, bins)
    if not len(index):
        return float("nan")
    gaps = np.bincount(index, weights=correct - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / len(index))


def auroc(confidence: np.ndarray, correct: np.ndarray) -> float:
    """Probability that a correct response has a higher confidence than an incorrect one, ties counting half.

    Args:
        confidence: float64 [n] in [0, 1].
        correct: bool [n].

    Returns:
        NaN where it is undefined: all responses are correct, or none is.
    """
    confidence, correct = _checked(confidence), np.asarray(correct, dtype=bool)
    positives = int(correct.sum())
    pairs = positives * (len(correct) - positives)
    if not pairs:
        return float("nan")
    _, value, count = np.unique(confidence, return_inverse=True, return_counts=True)
    middle_rank = np.cumsum(count) - (count - 1) / 2  # of tied confidences, one-based
    return float((middle_rank[value[correct]].sum() - positives * (positives + 1) / 2) / pairs)


def reliability_bins(confidence: np.ndarray, correct: np.ndarray, bins: int = 10) -> ReliabilityBins:
    """Count, accuracy and mean confidence of every bin.

    Args:
        confidence: float64 [n] in [0, 1], valid ones only.
        correct: bool [n].
    """
    index = bin_index(confidence, bins)
    count = np.bincount(index, minlength=bins)
    size = np.where(count, count, np.nan)
    return ReliabilityBins(
        count,
        np.bincount(index, weights=correct, minlength=bins) / size,
        np.bincount(index, weights=confidence, minlength=bins) / size,
    )


def evaluate(confidence: np.ndarray, valid: np.ndarray, correct: np.ndarray, bins: int = 10) -> dict[str, float]:
    """All `METRICS` of one set of responses.

    Accuracy is over all responses; the others over those with a valid confidence, and NaN without any. Nothing
    is imputed for an invalid confidence.

    Args:
        confidence: float64 [n] in [0, 1] where valid; ignored elsewhere.
        valid: bool [n].
        correct: bool [n].

    Raises:
        ValueError: if a valid confidence is NaN or outside [0, 1].
    """
    stated, outcome = confidence[valid], correct[valid]
    return {
        "accuracy": float(correct.mean()) if len(correct) else float("nan"),
        "mean_confidence": float(stated.mean()) if len(stated) else float("nan"),
        "ece": expected_calibration_error(stated, outcome, bins),
        "auroc": auroc(stated, outcome),
    }


def _checked(confidence: np.ndarray) -> np.ndarray:
    confidence = np.asarray(confidence)
    if confidence.dtype != np.float64:
        raise TypeError(
            f"confidences must be float64, not {confidence.dtype}: "
            "compute them in float64, for a value rounded to float32 may already have left its bin"
        )
    inside = (confidence >= 0) & (confidence <= 1)  # False for NaN
    if not inside.all():
        row = int(np.argmin(inside))
        raise ValueError(f"valid confidences must lie in [0, 1]; row {row} is {confidence[row]}")
    return confidence
