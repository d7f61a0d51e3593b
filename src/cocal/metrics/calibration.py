"""Metric definitions (appendix A.2). Everything is computed in float64.

Bins are right-closed, so a confidence of m/10 belongs to bin m. This holds only in float64: as float32, 1/10, 2/10,
3/10, 4/10, 6/10 and 8/10 lie just above the float64 edge and fall into the next bin, and a later conversion cannot
repair this. Confidences that are not float64 are therefore refused instead of converted.
"""

import numpy as np
import pandas as pd

METRICS = ("accuracy", "mean_confidence", "ece", "auroc")
"""Names of the metrics, in the order of the main table."""


def bin_edges(bins: int) -> np.ndarray:
    """The `bins` + 1 edges 0, 1/bins, ..., 1, each rounded to the nearest float64."""
    return np.arange(bins + 1) / bins


def bin_index(confidence: np.ndarray, bins: int) -> np.ndarray:
    """Return the zero-based indices of the equal-width, right-closed bins [0, 1/bins], (1/bins, 2/bins], ... Raises a
    TypeError if `confidence` is not float64 (the module's docstring says why), and a ValueError if a confidence is NaN
    or outside [0, 1].

    Args:
        confidence: float64 [n] in [0, 1].

    Returns:
        int64 [n].
    """
    confidence = _checked(confidence)
    return np.searchsorted(bin_edges(bins)[1:-1], confidence, side="left")


def expected_calibration_error(confidence: np.ndarray, correct: np.ndarray, bins: int = 10) -> float:
    """Compute the expected calibration error (appendix A.2); it is NaN without any confidence.

    A bin's share times |accuracy - mean confidence| equals |sum of (correct - confidence)| / n, also where it is empty.

    Args:
        confidence: float64 [n] in [0, 1], valid confidences only.
        correct: bool [n], whether each response is correct.
    """
    index = bin_index(confidence, bins)
    if not len(index):
        return float("nan")
    gaps = np.bincount(index, weights=correct - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / len(index))


def auroc(confidence: np.ndarray, correct: np.ndarray) -> float:
    """Compute the probability that a correct response has a higher confidence than an incorrect one; ties count half.

    Args:
        confidence: float64 [n] in [0, 1], valid confidences only.
        correct: bool [n], whether each response is correct.

    Returns:
        The AUROC, or NaN if all responses are correct or none is.
    """
    confidence, correct = _checked(confidence), np.asarray(correct, dtype=bool)
    positives = int(correct.sum())
    pairs = positives * (len(correct) - positives)
    if not pairs:
        return float("nan")
    _, value, count = np.unique(confidence, return_inverse=True, return_counts=True)
    middle_rank = np.cumsum(count) - (count - 1) / 2  # one-based mean rank of tied confidences
    return float((middle_rank[value[correct]].sum() - positives * (positives + 1) / 2) / pairs)


def pairs_within(
    question: np.ndarray, confidence: np.ndarray, correct: np.ndarray, questions: int
) -> tuple[np.ndarray, np.ndarray]:
    """Count the pairs of a correct and a wrong response to one question.

    Args:
        question: int64 [n], index of each response's question, below `questions`.
        confidence: float64 [n] in [0, 1], valid confidences only.
        correct: bool [n], whether each response is correct.
        questions: Number of questions.

    Returns:
        Two float64 [questions]: pairs whose correct response has the higher confidence (ties count half), and all.
    """
    order = np.lexsort((confidence, question))
    question, confidence, correct = question[order], confidence[order], correct[order].astype(bool)
    starts = np.flatnonzero(np.r_[True, (np.diff(question) > 0) | (np.diff(confidence) > 0)][: len(order)])
    size = np.diff(starts, append=len(order))
    number = np.bincount(question, minlength=questions)
    positives = np.bincount(question[correct], minlength=questions)
    rank = np.repeat(starts + (size - 1) / 2, size) - (np.cumsum(number) - number)[question]  # tied ones share the mean
    ranks = np.bincount(question[correct], weights=rank[correct], minlength=questions)
    return ranks - positives * (positives - 1) / 2, positives * (number - positives).astype(np.float64)


def reliability_bins(confidence: np.ndarray, correct: np.ndarray, bins: int = 10) -> pd.DataFrame:
    """Compute the numbers of a reliability diagram.

    Args:
        confidence: float64 [n] in [0, 1], valid confidences only.
        correct: bool [n], whether each response is correct.

    Returns:
        A row for each bin: left and right (its edges), count, accuracy and mean_confidence (NaN of an empty bin).
    """
    index, edges = bin_index(confidence, bins), bin_edges(bins)
    count = np.bincount(index, minlength=bins)
    size = np.where(count, count, np.nan)
    accuracy = np.bincount(index, weights=correct, minlength=bins) / size
    mean = np.bincount(index, weights=confidence, minlength=bins) / size
    columns = {"left": edges[:-1], "right": edges[1:], "count": count, "accuracy": accuracy, "mean_confidence": mean}
    return pd.DataFrame(columns)


def evaluate(confidence: np.ndarray, valid: np.ndarray, correct: np.ndarray, bins: int = 10) -> dict[str, float]:
    """Compute all `METRICS` of one set of responses.

    Accuracy uses all responses, the other metrics those with a valid confidence; they are NaN if there are none. Raises
    a ValueError if a valid confidence is NaN or outside [0, 1].

    Args:
        confidence: float64 [n], in [0, 1] if valid, otherwise ignored.
        valid: bool [n], whether each confidence is valid.
        correct: bool [n], whether each response is correct.
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
            "compute them in float64, since rounding to float32 may already have moved a value to another bin"
        )
    inside = (confidence >= 0) & (confidence <= 1)  # False for NaN
    if not inside.all():
        row = int(np.argmin(inside))
        raise ValueError(f"valid confidences must lie in [0, 1]; row {row} is {confidence[row]}")
    return confidence
