"""Estimates that carry their resamples, so that a difference of two of them is a paired one.

The resamples of two methods that answer the same questions are the same (`cocal.metrics.bootstrap`), so the difference
is taken resample by resample. That pairs the methods: on their responses where these are the same, and on the questions
otherwise. Whole questions are drawn, so that responses to one question stay together.
"""

from dataclasses import dataclass, field

import numpy as np

from cocal.errors import ContractError
from cocal.metrics.bootstrap import centred_interval

_NONE = np.empty(0)


@dataclass(frozen=True)
class Estimate:
    """A number with its two kinds of variance, that of the questions and that of the seeds, which are kept apart until
    an interval is asked for."""

    value: float
    """The number; for a method with seeds, the mean over them."""
    resampled: np.ndarray = field(default_factory=lambda: _NONE)
    """float64 [resamples], the number on each resample of the questions; empty for a published number or a count."""
    by_seed: np.ndarray = field(default_factory=lambda: _NONE)
    """float64 [seeds], the number of each companion seed; empty without seeds."""
    questions: str = ""
    """Digest of the questions of the resamples; empty without resamples."""

    def __sub__(self, other: "Estimate | float") -> "Estimate":
        """The paired difference.

        Seeds are paired too, because a companion's seed draws its initial weights; a method without seeds has one
        number for all. Raises ContractError if both have resamples, but of different questions or different in number.
        """
        if not isinstance(other, Estimate):
            return Estimate(self.value - other, self.resampled - other, self.by_seed - other, self.questions)
        resampled = _NONE
        if self.resampled.size and other.resampled.size:
            if self.questions != other.questions or self.resampled.size != other.resampled.size:
                raise ContractError(
                    "a paired difference needs the same questions and resamples on both sides; predict both methods "
                    "on the same questions, and give both the same settings of the metrics"
                )
            resampled = self.resampled - other.resampled
        ours, theirs = (number.by_seed if number.by_seed.size else number.value for number in (self, other))
        by_seed = np.subtract(ours, theirs) if self.by_seed.size or other.by_seed.size else _NONE
        return Estimate(self.value - other.value, resampled, by_seed, self.questions)

    def __neg__(self) -> "Estimate":
        """The number with the other sign."""
        return Estimate(-self.value, -self.resampled, -self.by_seed, self.questions)

    @property
    def seed_sd(self) -> float:
        """Standard deviation over the seeds (n - 1); NaN with fewer than two."""
        return float(self.by_seed.std(ddof=1)) if self.by_seed.size > 1 else float("nan")

    def unpaired(self, other: "Estimate") -> "Estimate":
        """The difference between numbers of two sets of questions, whose resamples are drawn independently."""
        return self - Estimate(other.value, other.resampled, other.by_seed, self.questions)

    def _varied(self) -> np.ndarray:
        """The resamples, each plus the deviation of a mean over seeds that are drawn with replacement, so that they
        have the variance of the questions and that of the mean over the seeds."""
        n = self.by_seed.size
        if n < 2 or not self.resampled.size or np.isnan(self.by_seed).any():
            return self.resampled
        deviations = (self.by_seed - self.by_seed.mean()) * np.sqrt(n / (n - 1))
        return self.resampled + np.random.default_rng(0).choice(deviations, (self.resampled.size, n)).mean(axis=1)

    def interval(self, level: float) -> tuple[float, float]:
        """The percentile interval over questions and seeds, centred on the number like that of every metric. Both ends
        are the number itself without resamples, and NaN if no resample defines it."""
        if not self.resampled.size:
            return self.value, self.value
        lower, upper = centred_interval(np.array([self.value]), self._varied()[None], level, least=-np.inf, most=np.inf)
        return float(lower[0]), float(upper[0])

    def p_value(self) -> float:
        """The two-sided bootstrap p-value of the hypothesis that the number is zero.

        It is twice the share of the resamples, centred on the number, that lie on the other side of zero or on it. The
        sample itself counts as one more, so that B resamples give no less than 2 / (B + 1). At 5 %, about one in twenty
        pairs of equal methods is found different; fewer ECEs of different responses are. NaN without resamples.
        """
        varied = self._varied()
        defined = varied[~np.isnan(varied)]
        if not defined.size or np.isnan(self.value):
            return float("nan")
        centred = defined - defined.mean() + self.value
        tail = min(np.count_nonzero(centred <= 0), np.count_nonzero(centred >= 0))
        return min(1.0, 2 * (tail + 1) / (defined.size + 1))
