"""Smooth expected calibration error (Błasiok and Nakkiran 2023), on many resamples at once.

The difference between correctness and confidence is smoothed along the confidence by a Gaussian kernel that is
reflected at 0 and 1. The error at a bandwidth is the mean of its absolute value over [0, 1]; it falls with the
bandwidth, and the smooth ECE is the bandwidth at which the two are equal.

Reflected smoothing only damps the cosine series of what it smooths: the term k loses the factor exp(-(pi k s)^2 / 2) at
the bandwidth s. The series of a resample is a sum over its questions, as every other sum of the bootstrap, and a few
dozen terms are enough, because the others are damped away.
"""

from dataclasses import dataclass

import numpy as np

_NARROWEST = 1 / 256
"""Smallest bandwidth; an error below it is that at this bandwidth. Only a set without any error comes near it."""
_POINTS = 128
"""Number of points in [0, 1] at which the smoothed difference is taken."""
_REACH = 6.8
"""pi k s of the first term k that is left out at a bandwidth s: it is damped to 1e-10."""
_PRECISION = 1e-12
"""Largest difference between a bandwidth and its error at which the search ends: less than
the digits that are written."""
_ROUNDS = 60


@dataclass(frozen=True)
class Smooth:
    """The responses with a valid confidence.

    Attributes:
        question: int64 [n], question of each response.
        confidence: float64 [n] in [0, 1].
        gap: float64 [n], correctness less confidence.
        questions: Number of questions.
    """

    question: np.ndarray
    confidence: np.ndarray
    gap: np.ndarray
    questions: int

    def errors(self, counts: np.ndarray) -> np.ndarray:
        """The smooth ECE of every resample.

        Args:
            counts: float64 [resamples, questions], how often each resample holds each question.

        Returns:
            float64 [resamples]; NaN without responses.
        """
        valid = counts @ np.bincount(self.question, minlength=self.questions)
        found = np.full(len(counts), np.nan)
        left = np.flatnonzero(valid > 0)
        found[left] = 0.1 if len(counts) == 1 else self.errors(np.ones((1, self.questions)))  # where the search begins
        while len(left):
            terms = _terms(0.7 * found[left].min())
            series = self._series(terms) @ counts[left].T / valid[left]
            found[left] = _fixed_points(series, found[left])
            left = left[_terms(found[left]) > terms]
        return found

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
    """The bandwidths that equal their errors, by the secant method within bounds.

    Args:
        series: float64 [terms, resamples].
        start: float64 [resamples], bandwidths near them.

    Returns:
        float64 [resamples].
    """
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
