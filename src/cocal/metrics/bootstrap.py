"""Cluster bootstrap over questions, vectorised over the resamples.

Ten responses to one question are not ten independent draws, so whole questions are resampled. A resample is a count for
each question, and every metric is weighted with these counts: sums over questions are one matrix product, and AUROC
needs cumulative counts along the sorted confidences. The confidences of each sample are sorted once, and all samples
share the counts. For AUROC the resamples are the last dimension of the counts, so that the counts of a response's
question are contiguous in memory.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cocal.metrics.calibration import METRICS, bin_index

_CHUNK = 1 << 20
"""Number of question counts that are drawn and held at a time (8 MB)."""


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


def generator_for(seed: int, dataset: str) -> np.random.Generator:
    """Return the random generator of one dataset, which depends neither on other datasets nor on the methods."""
    name = int.from_bytes(hashlib.sha256(dataset.encode()).digest()[:8], "little")
    return np.random.default_rng([seed, name])


def resampled_metrics(
    samples: Sequence[Sample], questions: int, *, bins: int, resamples: int, generator: np.random.Generator
) -> np.ndarray:
    """Compute the metrics of every sample in every resample; all samples share the resamples.

    Args:
        samples: Sets of responses to the same questions.
        questions: Number of questions.
        bins: Number of bins of the expected calibration error.
        resamples: Number of resamples.
        generator: Random generator that draws the resamples.

    Returns:
        float64 [samples, resamples, metrics], in the order of `METRICS`. A metric is NaN in a resample that does not
        define it (a single class, or no valid confidence).
    """
    prepared = [_Prepared.of(sample, questions, bins) for sample in samples]
    result = np.empty((len(samples), resamples, len(METRICS)))
    done = 0
    for counts in question_counts(questions, resamples, generator):
        by_question = np.ascontiguousarray(counts.T, dtype=np.int32)
        for index, one in enumerate(prepared):
            result[index, done : done + len(counts)] = one.metrics(counts, by_question)
        done += len(counts)
    return result


def question_counts(questions: int, resamples: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Draw how often each question occurs in each resample (multinomial).

    Yields:
        float64 [rows, questions] of whole numbers; each row is a resample and sums to `questions`. The resamples come
        in several chunks to bound the memory.
    """
    rows = max(1, _CHUNK // questions)
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        drawn = generator.integers(questions, size=(size, questions))
        drawn += np.arange(size)[:, None] * questions
        counts = np.bincount(drawn.ravel(), minlength=size * questions)
        yield counts.reshape(size, questions).astype(np.float64)


def centred_interval(value: np.ndarray, resampled: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Compute a percentile interval and shift it by the difference between the estimate and the resamples' mean.

    ECE is larger on resamples, whose bins are noisier than the sample's, so its plain percentile interval can miss the
    estimate itself. The shift removes this bias; without a bias, as for accuracy, it changes almost nothing.

    Args:
        value: float64 [...], estimates on the sample.
        resampled: float64 [..., resamples], NaN for resamples that do not define the metric; these are ignored.
        level: Coverage, such as 0.95.

    Returns:
        Lower and upper bounds, float64 [...] within [0, 1]; NaN if no resample defines the metric.
    """
    bounds = np.full((2, *resampled.shape[:-1]), np.nan)
    tail = (1 - level) / 2
    undefined = np.isnan(resampled).sum(axis=-1)
    # nanquantile loops over rows, so only the few rows with NaN use it.
    for rows, mean, quantile in (
        (undefined == 0, np.mean, np.quantile),
        ((undefined > 0) & (undefined < resampled.shape[-1]), np.nanmean, np.nanquantile),
    ):
        if rows.any() and resampled.shape[-1]:
            bias = mean(resampled[rows], axis=-1) - value[rows]
            bounds[:, rows] = np.clip(quantile(resampled[rows], [tail, 1 - tail], axis=-1) - bias, 0.0, 1.0)
    return bounds[0], bounds[1]


@dataclass(frozen=True)
class _Prepared:
    """The quantities of a sample that all resamples share.

    Attributes:
        sums: float64 [4 + bins, questions], for each question the numbers of responses, of correct responses and of
            valid confidences, the sum of the valid confidences, and the sum of (correct - confidence) in each bin.
        positives: int64 [correct responses with valid confidence], their questions in order of ascending confidence.
        negatives: int64 [incorrect responses with valid confidence], their questions in the same order.
        below: int64 [positives], number of negatives with a lower confidence.
        not_above: int64 [positives], number of negatives with a lower or equal confidence.
    """

    sums: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray
    below: np.ndarray
    not_above: np.ndarray

    @classmethod
    def of(cls, sample: Sample, questions: int, bins: int) -> "_Prepared":
        valid = ~np.isnan(sample.confidence)
        question, confidence, correct = sample.question[valid], sample.confidence[valid], sample.correct[valid]
        sums = np.zeros((4 + bins, questions))
        sums[0] = np.bincount(sample.question, minlength=questions)
        sums[1] = np.bincount(sample.question, weights=sample.correct, minlength=questions)
        sums[2] = np.bincount(question, minlength=questions)
        sums[3] = np.bincount(question, weights=confidence, minlength=questions)
        np.add.at(sums, (4 + bin_index(confidence, bins), question), correct - confidence)

        order = np.argsort(confidence, kind="stable")
        question, confidence, correct = question[order], confidence[order], correct[order]
        return cls(
            sums,
            question[correct],
            question[~correct],
            np.searchsorted(confidence[~correct], confidence[correct], side="left"),
            np.searchsorted(confidence[~correct], confidence[correct], side="right"),
        )

    def metrics(self, counts: np.ndarray, by_question: np.ndarray) -> np.ndarray:
        """Compute the metrics, float64 [resamples, metrics].

        Args:
            counts: float64 [resamples, questions], question counts.
            by_question: The same counts as int32 [questions, resamples].
        """
        n, correct, valid, confidence, *gaps = self.sums @ counts.T
        with np.errstate(invalid="ignore"):  # 0 / 0 gives NaN for an undefined metric
            return np.stack(
                [correct / n, confidence / valid, np.abs(gaps).sum(axis=0) / valid, self._auroc(by_question)], axis=1
            )

    def _auroc(self, counts: np.ndarray) -> np.ndarray:
        """Compute the weighted share of ordered (positive, negative) pairs from int32 counts [questions, resamples].

        All sums are exact, since they add whole numbers: cumulative counts stay below 2^31, and pairs are summed in
        int64.
        """
        cumulative = np.zeros((len(self.negatives) + 1, counts.shape[1]), dtype=np.int32)
        np.cumsum(counts[self.negatives], axis=0, out=cumulative[1:])
        weight = counts[self.positives]
        won = cumulative[self.below]
        won += cumulative[self.not_above]  # a tie counts half
        twice = np.einsum("pr,pr->r", weight, won, dtype=np.int64)
        return twice / 2 / (weight.sum(axis=0, dtype=np.int64) * cumulative[-1])
