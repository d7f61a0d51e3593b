"""The metrics of the paper and the further scores of a sample, on many resamples of its questions at once.

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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cocal.metrics.calibration import METRICS, bin_index, pairs_within
from cocal.metrics.ordered import COVERAGES, Ordered

CLIP = float(np.finfo(np.float32).eps)
"""Confidences are moved into [CLIP, 1 - CLIP] for the log loss, which is infinite if a confidence of 0 or 1 is wrong.
It is the spacing of float32 at 1, 1.2e-7, at which scikit-learn clips probabilities of this type."""
WORST_LOG_LOSS = float(-np.log(CLIP))


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


_NARROWEST = 1 / 256
"""Smallest bandwidth; a smaller error is taken at this bandwidth. Only a set without any error comes near it."""
_POINTS = 128
"""Number of points in [0, 1] at which the smoothed difference is taken."""
_REACH = 6.8
"""pi k s of the first term k that is left out at a bandwidth s: it is damped to 1e-10."""
_PRECISION = 1e-12
"""Largest difference between a bandwidth and its error at which the search ends: less than the digits of a file."""
_ROUNDS = 60


@dataclass(frozen=True)
class Smooth:
    """The responses with a valid confidence, for the smooth expected calibration error (Błasiok and Nakkiran 2023).

    The difference between correctness and confidence is smoothed along the confidence by a Gaussian kernel that is
    reflected at 0 and 1. The error at a bandwidth is the mean of its absolute value over [0, 1]; it falls with the
    bandwidth, and the smooth ECE is the bandwidth at which the two are equal.

    Reflected smoothing only damps the cosine series of what it smooths: the term k loses the factor
    exp(-(pi k s)^2 / 2) at the bandwidth s. The series of a resample is a sum over its questions, as every other sum of
    the bootstrap, and a few dozen terms are enough, because the others are damped away.
    """

    question: np.ndarray
    """int64 [n], question of each response."""
    confidence: np.ndarray
    """float64 [n] in [0, 1]."""
    gap: np.ndarray
    """float64 [n], correctness less confidence."""
    questions: int
    """Number of questions."""

    def errors(self, counts: np.ndarray) -> np.ndarray:
        """The smooth ECE of every resample, float64 [resamples], NaN without responses, given its question counts."""
        valid = counts @ np.bincount(self.question, minlength=self.questions)
        error = np.full(len(counts), np.nan)
        left = np.flatnonzero(valid > 0)
        error[left] = 0.1 if len(counts) == 1 else self.errors(np.ones((1, self.questions)))  # where the search begins
        while len(left):
            terms = _terms(0.7 * error[left].min())
            series = self._series(int(terms)) @ counts[left].T / valid[left]
            error[left] = _fixed_points(series, error[left])
            left = left[_terms(error[left]) > terms]
        return error

    def _series(self, terms: int) -> np.ndarray:
        """The cosine series of each question's differences, float64 [terms, questions]."""
        waves = np.cos(np.pi * np.arange(terms)[:, None] * self.confidence)
        waves *= self.gap
        if len(self.question) == self.questions and (np.diff(self.question) == 1).all():
            return waves
        order = np.argsort(self.question, kind="stable")
        questions, first = np.unique(self.question[order], return_index=True)
        result = np.zeros((terms, self.questions))
        result[:, questions] = np.add.reduceat(waves[:, order], first, axis=1)
        return result


def _terms(bandwidth: np.ndarray | float) -> np.ndarray:
    """Number of terms that a bandwidth leaves, at most those of the narrowest."""
    return np.ceil(_REACH / (np.pi * np.maximum(bandwidth, _NARROWEST))).astype(np.int64)


def _fixed_points(series: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The bandwidths at which the error equals the bandwidth, by a bounded secant method from the given starts."""
    terms = np.arange(len(series))
    middles = (np.arange(_POINTS) + 0.5) / _POINTS
    waves = np.cos(np.pi * middles[:, None] * terms) * np.where(terms, 2.0, 1.0)

    def error(columns: np.ndarray, bandwidth: np.ndarray) -> np.ndarray:
        damped = np.exp(-((np.pi * bandwidth * terms[:, None]) ** 2) / 2) * columns
        return np.abs(waves @ damped).mean(axis=0)

    here, columns = np.maximum(start, _NARROWEST), series
    result, left = here.copy(), np.arange(len(here))
    above = error(columns, here) - here
    there = np.clip(here + above, _NARROWEST, 1.0)  # beyond the fixed point, for the error falls with the bandwidth
    for _ in range(_ROUNDS):
        beyond = error(columns, there) - there
        narrow = (there == _NARROWEST) & (beyond < 0)
        result[left] = np.where(narrow, there + beyond, there)
        keep = ~narrow & (np.abs(beyond) > _PRECISION)
        if not keep.any():
            break
        left, columns = left[keep], columns[:, keep]
        here, there, above, beyond = here[keep], there[keep], above[keep], beyond[keep]
        slope = (beyond - above) / (there - here)
        here, above = there, beyond
        there = np.clip(there - beyond / slope, _NARROWEST, 1.0)
    return result


SCORES = (
    *("brier", "brier_reliability", "brier_resolution", "brier_uncertainty", "log_loss"),
    *("adaptive_ece", "smooth_ece", "aurc", "augrc", "prr", *reversed(COVERAGES)),
)
"""Names of the scores beyond those of the paper, in the order of tables/proper_scores. They use the responses with a
valid confidence and are NaN without any; the prediction rejection ratio is also NaN for a single class."""
ALL = (*METRICS, *SCORES)
"""Names of all metrics of a cube, in its order."""
WITHIN = "auroc_within"
"""Name of the AUROC within questions: the probability that, of a correct and a wrong response to one question, the
correct one has the higher confidence, over all such pairs. It tells what a confidence knows beyond the difficulty of
questions, and is NaN where no question has both."""
WITH_QUESTIONS = (*ALL, WITHIN)
"""Names of all metrics of responses whose questions are known."""
PAIRED = (*METRICS, "brier", "log_loss")
"""The metrics that are kept of every resample to test differences by: the paper's, and proper scores beside its ECE."""
LEAST = {name: -np.inf if name == "prr" else 0.0 for name in WITH_QUESTIONS}
"""The least value of each metric."""
MOST = {name: WORST_LOG_LOSS if name == "log_loss" else 1.0 for name in WITH_QUESTIONS}
"""The greatest value of each metric."""


@dataclass(frozen=True)
class Sample:
    """The responses of one method and seed on one question set.

    Attributes:
        question: int64 [n], index of each response's question.
        confidence: float64 [n], NaN if there is no valid confidence.
        correct: bool [n], whether each response is correct.
    """

    question: np.ndarray
    confidence: np.ndarray
    correct: np.ndarray


@dataclass(frozen=True)
class Prepared:
    """The quantities of a sample that all resamples share."""

    sums: np.ndarray
    """float64 [8 + 3 bins, questions], for each question the numbers of responses, of correct responses and of valid
    confidences, the sums of the valid confidences, of their squared errors and of their log losses, the numbers of
    pairs in which the correct response is more confident and of all pairs (`pairs_within`), and for each bin the number
    of valid confidences, of correct responses among them, and the sum of (correct - confidence)."""
    ordered: Ordered | None
    """The responses with a valid confidence in the order of their confidence, if there are any."""
    smooth: Smooth
    """The same responses for the smooth calibration error."""
    bins: int
    """Number of bins of the calibration errors."""

    @classmethod
    def of(cls, sample: Sample, questions: int, bins: int) -> "Prepared":
        """Prepare a sample; a TypeError refuses confidences not in float64, a ValueError valid ones outside [0, 1]."""
        valid = ~np.isnan(sample.confidence)
        question, confidence, correct = sample.question[valid], sample.confidence[valid], sample.correct[valid]
        gap, place = correct - confidence, bin_index(confidence, bins)

        def summed(of: np.ndarray, values: np.ndarray | None = None) -> np.ndarray:
            return np.bincount(of, weights=values, minlength=questions)

        def binned(values: np.ndarray | None = None) -> np.ndarray:
            cells = np.bincount(place * questions + question, weights=values, minlength=bins * questions)
            return cells.reshape(bins, questions)

        sums = [
            summed(sample.question),
            summed(sample.question, sample.correct),
            summed(question),
            summed(question, confidence),
            summed(question, (confidence - correct) ** 2),
            summed(question, -np.log(np.where(correct, confidence, 1 - confidence).clip(CLIP, 1 - CLIP))),
            *pairs_within(question, confidence, correct, questions),
            *(binned(), binned(correct), binned(gap)),
        ]
        ordered = Ordered.of(question, confidence, correct) if len(question) else None
        return cls(np.vstack(sums), ordered, Smooth(question, confidence, gap, questions), bins)

    def metrics(self, counts: np.ndarray, by_question: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """Compute the metrics of every resample, float64 [resamples, metrics], in the order of `names`.

        Args:
            counts: float64 [resamples, questions], question counts.
            by_question: The same counts as int32 [questions, resamples].
            names: The metrics that are wanted; all but `PAIRED` and `WITHIN` take several times as long.
        """
        n, correct, valid, confidence, squared, logarithmic, won, pairs, *binned = self.sums @ counts.T
        number, right, gap = np.reshape(binned, (3, self.bins, len(counts)))
        values = {}
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 gives NaN for an undefined metric
            values["accuracy"] = correct / n
            values["mean_confidence"] = confidence / valid
            values["ece"] = np.abs(gap).sum(axis=0) / valid
            more = not set(names) <= {*PAIRED, WITHIN}
            if self.ordered:
                values |= self.ordered.metrics(by_question, self.bins if more else None)
            values["brier"], values["log_loss"] = squared / valid, logarithmic / valid
            values[WITHIN] = won / pairs
            if more:
                parts = ("brier_reliability", "brier_resolution", "brier_uncertainty")
                values |= zip(parts, parts_of_brier(number, right, gap), strict=True)
                if self.ordered:
                    values["smooth_ece"] = self.smooth.errors(counts)
        undefined = np.full(len(counts), np.nan)
        return np.stack([values.get(name, undefined) for name in names], axis=1)


def scores(confidence: np.ndarray, correct: np.ndarray, bins: int, names: Sequence[str] = ALL) -> dict[str, float]:
    """Compute the `SCORES` of responses from their confidence, float64 [n] in [0, 1] or NaN, their correctness, bool
    [n], and the number of bins of the parts of the Brier score and of the adaptive calibration error; of `names` alone,
    if these are given.
    """
    n = len(correct)
    prepared = Prepared.of(Sample(np.arange(n), confidence, correct), n, bins)
    (values,) = prepared.metrics(np.ones((1, n)), np.ones((n, 1), dtype=np.int32), names)
    return {name: float(value) for name, value in zip(names, values, strict=True) if name in SCORES}
