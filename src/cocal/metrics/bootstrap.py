"""Cluster bootstrap over questions, vectorised over the resamples.

Ten responses to one question are not ten independent draws, so whole questions are resampled. A resample is a count for
each question, and every metric is weighted with these counts: sums over questions are one matrix product, and metrics
of the order need cumulative counts along the sorted confidences. The confidences of each sample are sorted once, and
all samples share the counts. For metrics of the order the resamples are the last dimension of the counts, so that the
counts of a response's question are contiguous in memory.
"""

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from cocal.metrics.calibration import METRICS
from cocal.metrics.scores import Prepared, Sample

_CHUNK = 1 << 20
"""Number of question counts that are drawn and held at a time (8 MB)."""


def generator_for(seed: int, dataset: str) -> np.random.Generator:
    """The random generator of one dataset, which depends neither on other datasets nor on the methods."""
    name = int.from_bytes(hashlib.sha256(dataset.encode()).digest()[:8], "little")
    return np.random.default_rng([seed, name])


def resampled_metrics(
    samples: Sequence[Sample],
    questions: int,
    *,
    bins: int,
    resamples: int,
    generator: np.random.Generator,
    names: Sequence[str] = METRICS,
) -> np.ndarray:
    """Compute the metrics of every sample in every resample; all samples share the resamples.

    Args:
        samples: Sets of responses to the same questions.
        questions: Number of questions.
        bins: Number of bins of the expected calibration error.
        resamples: Number of resamples.
        generator: Random generator that draws the resamples.
        names: Names of the metrics: the paper's `METRICS`, or `ALL`.

    Returns:
        float64 [samples, resamples, metrics], in the order of `names`. A metric is NaN in a resample that does not
        define it (a single class, or no valid confidence).
    """
    prepared = [Prepared.of(sample, questions, bins) for sample in samples]
    result = np.empty((len(samples), resamples, len(names)))
    done = 0
    for counts in question_counts(questions, resamples, generator):
        by_question = np.ascontiguousarray(counts.T, dtype=np.int32)
        for index, sample in enumerate(prepared):
            result[index, done : done + len(counts)] = sample.metrics(counts, by_question, names)
        done += len(counts)
    return result


def question_counts(questions: int, resamples: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Draw how often each question occurs in each resample (multinomial), in several chunks to bound the memory:
    float64 [rows, questions] of whole numbers, whose rows are resamples and sum to `questions`."""
    rows = max(1, _CHUNK // questions)
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        drawn = generator.integers(questions, size=(size, questions))
        drawn += np.arange(size)[:, None] * questions
        counts = np.bincount(drawn.ravel(), minlength=size * questions)
        yield counts.reshape(size, questions).astype(np.float64)


def resampled_means(values: np.ndarray, resamples: int, generator: np.random.Generator) -> np.ndarray:
    """The mean over the questions in every resample, such as the accuracy of one response a question.

    Args:
        values: float64 [..., questions].
        resamples: Number of resamples.
        generator: Random generator that draws the resamples, which all leading dimensions share.

    Returns:
        float64 [..., resamples].
    """
    questions = values.shape[-1]
    parts = [values @ counts.T / questions for counts in question_counts(questions, resamples, generator)]
    return np.concatenate([np.empty((*values.shape[:-1], 0)), *parts], axis=-1)


def centred_interval(
    value: np.ndarray,
    resampled: np.ndarray,
    level: float,
    least: ArrayLike = 0.0,
    most: ArrayLike = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """A percentile interval, shifted by the difference between the estimate and the resamples' mean.

    ECE is larger on resamples, whose bins are noisier than the sample's, so its plain percentile interval can miss the
    estimate itself. The shift removes this bias; without a bias, as for accuracy, it changes almost nothing.

    Args:
        value: float64 [...], estimates on the sample.
        resampled: float64 [..., resamples], NaN for resamples that do not define the metric; these are ignored.
        level: Coverage, such as 0.95.
        least, most: Least and greatest value of each estimate, which broadcast to the estimates.

    Returns:
        Lower and upper bounds, float64 [...] from `least` to `most`; NaN if no resample defines the metric.
    """
    least, most = np.broadcast_to(least, value.shape), np.broadcast_to(most, value.shape)
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
            ends = quantile(resampled[rows], [tail, 1 - tail], axis=-1) - bias
            bounds[:, rows] = np.clip(ends, least[rows], most[rows])
    return bounds[0], bounds[1]
