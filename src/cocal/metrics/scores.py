"""The metrics of the paper and the further scores of a sample, on many resamples of its questions at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cocal.metrics.calibration import METRICS, bin_index
from cocal.metrics.ordered import COVERAGES, Counted, Ordered
from cocal.metrics.proper import WORST_LOG_LOSS, log_loss, parts_of_brier, squared_error
from cocal.metrics.smooth import Smooth

SCORES = (
    *("brier", "brier_reliability", "brier_resolution", "brier_uncertainty", "log_loss"),
    *("adaptive_ece", "smooth_ece", "aurc", "augrc", "prr", *reversed(COVERAGES)),
)
"""Names of the scores beyond those of the paper, in the order of tables/proper_scores. Each is of the responses with a
valid confidence. A score is NaN without such a response, and the prediction rejection ratio of a single class, too."""
ALL = (*METRICS, *SCORES)
"""Names of all metrics of a cube, in its order."""
PAIRED = (*METRICS, "brier", "log_loss")
"""The metrics that are kept of every resample, so that differences between methods can be tested: the paper's, and the
proper scores beside its ECE."""
LEAST = {name: -np.inf if name == "prr" else 0.0 for name in ALL}
"""The least value of each metric."""
MOST = {name: WORST_LOG_LOSS if name == "log_loss" else 1.0 for name in ALL}
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
    """The quantities of a sample that all resamples share.

    Attributes:
        sums: float64 [6 + 3 bins, questions], for each question the numbers of responses, of correct responses and of
            valid confidences, the sums of the valid confidences, of their squared errors and of their log losses, and
            for each bin the number of valid confidences, of correct responses among them, and the sum of (correct -
            confidence).
        ordered: The responses with a valid confidence in the order of their confidence, if there are any.
        smooth: The same responses for the smooth calibration error.
        bins: Number of bins of the calibration errors.
    """

    sums: np.ndarray
    ordered: Ordered | None
    smooth: Smooth
    bins: int

    @classmethod
    def of(cls, sample: Sample, questions: int, bins: int) -> "Prepared":
        """Prepare a sample.

        Raises:
            TypeError: if the confidences are not float64.
            ValueError: if a valid confidence lies outside [0, 1].
        """
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
            summed(question, squared_error(confidence, correct)),
            summed(question, log_loss(confidence, correct)),
            *(binned(), binned(correct), binned(gap)),
        ]
        ordered = Ordered.of(question, confidence, correct) if len(question) else None
        return cls(np.vstack(sums), ordered, Smooth(question, confidence, gap, questions), bins)

    def metrics(self, counts: np.ndarray, by_question: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """Compute the metrics of every resample, float64 [resamples, metrics], in the order of `names`.

        Args:
            counts: float64 [resamples, questions], question counts.
            by_question: The same counts as int32 [questions, resamples].
            names: `METRICS`, `PAIRED`, or `ALL`, which take several times as long.
        """
        n, correct, valid, confidence, squared, logarithmic, *binned = self.sums @ counts.T
        number, right, gap = np.reshape(binned, (3, self.bins, len(counts)))
        found = {}
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 gives NaN for an undefined metric
            found["accuracy"] = correct / n
            found["mean_confidence"] = confidence / valid
            found["ece"] = np.abs(gap).sum(axis=0) / valid
            counted = self.ordered.counted(by_question) if self.ordered else None
            if counted:
                found["auroc"] = counted.auroc()
            found["brier"], found["log_loss"] = squared / valid, logarithmic / valid
            if not set(names) <= set(PAIRED):
                parts = ("brier_reliability", "brier_resolution", "brier_uncertainty")
                found |= zip(parts, parts_of_brier(number, right, gap), strict=True)
                if counted:
                    found |= _of_order(counted, found["auroc"], self.bins)
                    found["smooth_ece"] = self.smooth.errors(counts)
        undefined = np.full(len(counts), np.nan)
        return np.stack([found.get(name, undefined) for name in names], axis=1)


def _of_order(counted: Counted, auroc: np.ndarray, bins: int) -> dict[str, np.ndarray]:
    aurc = counted.aurc()
    return {
        "adaptive_ece": counted.adaptive_ece(bins),
        "aurc": aurc,
        "augrc": counted.augrc(auroc),
        "prr": counted.prr(aurc),
        **{name: (1 - counted.risk_at(coverage)).clip(0.0, 1.0) for name, coverage in COVERAGES.items()},
    }


def scores(confidence: np.ndarray, correct: np.ndarray, bins: int) -> dict[str, float]:
    """The `SCORES` of responses: those of a resample that holds every response once.

    Args:
        confidence: float64 [n] in [0, 1], NaN if there is no valid confidence.
        correct: bool [n], whether each response is correct.
        bins: Number of bins of the parts of the Brier score and of the adaptive calibration error.
    """
    n = len(correct)
    prepared = Prepared.of(Sample(np.arange(n), confidence, correct), n, bins)
    (found,) = prepared.metrics(np.ones((1, n)), np.ones((n, 1), dtype=np.int32), ALL)
    return {name: float(value) for name, value in zip(ALL, found, strict=True) if name in SCORES}
