"""Proper scores of confidences, and the parts of the Brier score.

The Brier score is the mean of (confidence - correctness)^2. Murphy (1973) takes it apart over bins of the confidence,
which here are the bins of the expected calibration error. Bin k has n_k responses with mean confidence f_k and accuracy
a_k; all bins together have n responses with accuracy a:

- reliability, the sum of n_k (f_k - a_k)^2 / n: how far confidence lies from accuracy, lower is better;
- resolution, the sum of n_k (a_k - a)^2 / n: how far the bins tell responses apart, higher is better;
- uncertainty, a (1 - a): a property of the responses, not of the confidence.

Brier score = reliability - resolution + uncertainty, if the confidences of each bin are equal. Otherwise the score also
has what varies within the bins (Stephenson et al. 2008): their variance of the confidence, less twice their covariance
of confidence and correctness.
"""

import numpy as np

CLIP = float(np.finfo(np.float32).eps)
"""Confidences are moved into [CLIP, 1 - CLIP] for the log loss, which else is infinite if one of 0 or 1 is wrong. It is
the spacing of float32 at 1, 1.2e-7, at which scikit-learn clips probabilities of this type."""
WORST_LOG_LOSS = float(-np.log(CLIP))


def squared_error(confidence: np.ndarray, correct: np.ndarray) -> np.ndarray:
    """The Brier score of each response, float64 [n]."""
    return (confidence - correct) ** 2


def log_loss(confidence: np.ndarray, correct: np.ndarray) -> np.ndarray:
    """The log loss of each response, float64 [n], in nats."""
    return -np.log(np.where(correct, confidence, 1 - confidence).clip(CLIP, 1 - CLIP))


def parts_of_brier(number: np.ndarray, correct: np.ndarray, gap: np.ndarray) -> tuple[np.ndarray, ...]:
    """Reliability, resolution and uncertainty.

    Args:
        number: float64 [bins, resamples], number of responses in each bin.
        correct: float64 [bins, resamples], number of correct responses.
        gap: float64 [bins, resamples], sum of correctness less confidence.

    Returns:
        Three float64 [resamples]; NaN without responses.
    """
    n = number.sum(axis=0)
    accuracy = correct.sum(axis=0) / n
    filled = np.where(number > 0, number, 1.0)
    reliability = (gap**2 / filled).sum(axis=0) / n
    resolution = (number * (correct / filled - accuracy) ** 2).sum(axis=0) / n
    return reliability, resolution, accuracy * (1 - accuracy)
