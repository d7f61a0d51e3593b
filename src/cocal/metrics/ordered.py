"""Metrics of responses in the order of their confidence, on many resamples at once.

Responses with the same confidence have no order among themselves. They form one group, and whatever is counted along
the order grows evenly within a group: the metrics are their means over all orders of tied responses. A response that a
resample holds several times is tied with itself. A single evaluation is a resample that holds each response once.

Selective risk is the share of wrong responses among the most confident ones, and coverage is their share of all
responses.
"""

from dataclasses import dataclass

import numpy as np

COVERAGES = {"accuracy_at_50": 0.5, "accuracy_at_80": 0.8}
"""Coverages at which the accuracy is a metric, by its name."""
_CELLS = 1 << 21
"""Number of counts, of responses times resamples, that are held at a time, as far as `_LEAST` allows."""
_LEAST = 64
"""Number of resamples that are held at a time at least; of a handful, sums may be rounded in another order."""


@dataclass(frozen=True)
class Ordered:
    """Responses from the highest confidence to the lowest."""

    question: np.ndarray
    """int64 [n], question of each response."""
    wrong: np.ndarray
    """bool [n], whether each response is wrong."""
    starts: np.ndarray
    """int64 [groups], place of the first response of each group."""
    confidence: np.ndarray
    """float64 [groups], confidence of each group."""

    @classmethod
    def of(cls, question: np.ndarray, confidence: np.ndarray, correct: np.ndarray) -> "Ordered":
        """Sort n > 0 responses by question, int64, confidence, float64 in [0, 1], and correctness, bool, [n] each."""
        order = np.argsort(-confidence, kind="stable")
        confidence = confidence[order]
        starts = np.flatnonzero(np.r_[True, confidence[1:] != confidence[:-1]])
        return cls(question[order], ~correct[order], starts, confidence[starts])

    def metrics(self, counts: np.ndarray, bins: int | None = None) -> dict[str, np.ndarray]:
        """The AUROC of every resample, float64 [resamples], by its name, and with a number of bins all others of
        the order, too. Resamples are counted as in `counted`, a few at a time, which is many times as fast as all."""
        width = max(_LEAST, _CELLS // len(self.question))
        blocks = np.array_split(counts, max(1, round(counts.shape[1] / width)), axis=1)
        found = [self.counted(np.ascontiguousarray(block)).metrics(bins) for block in blocks]
        return {name: np.concatenate([of_block[name] for of_block in found]) for name in found[0]}

    def counted(self, counts: np.ndarray) -> "Counted":
        """Count each group's responses in each resample, given its questions' counts, int32 [questions, resamples]."""
        number, wrong = counts[self.question], counts[self.question[self.wrong]]
        group = np.repeat(np.arange(len(self.starts)), np.diff(self.starts, append=len(self.question)))
        holding, first = np.unique(group[self.wrong], return_index=True)
        numbers, wrongs = _cumulative(number), _cumulative(wrong)
        if len(self.starts) < len(self.question):
            numbers, wrongs = numbers[np.append(self.starts, len(number))], wrongs[np.append(first, len(wrong))]
            number, wrong = np.diff(numbers, axis=0), np.diff(wrongs, axis=0)
        return Counted(self.confidence, holding, number, wrong, numbers, wrongs)


@dataclass(frozen=True)
class Counted:
    """Numbers of responses in each group and along the order, where row g holds those of the first g groups."""

    confidence: np.ndarray
    """float64 [groups], confidence of each group."""
    holding: np.ndarray
    """int64 [holding], the groups that hold wrong responses."""
    number: np.ndarray
    wrong: np.ndarray
    """int32 [groups, resamples] and [holding, resamples], numbers of responses and of wrong ones."""
    numbers: np.ndarray
    wrongs: np.ndarray
    """int32, the cumulative sums of both, with one row more."""

    def metrics(self, bins: int | None) -> dict[str, np.ndarray]:
        """See `Ordered.metrics`."""
        values = {"auroc": self.auroc()}
        if bins:
            values |= {"adaptive_ece": self.adaptive_ece(bins), "aurc": self.aurc()}
            values |= {"augrc": self.augrc(values["auroc"]), "prr": self.prr(values["aurc"])}
            for name, coverage in COVERAGES.items():
                values[name] = (1 - self.risk_at(coverage)).clip(0.0, 1.0)
        return values

    def auroc(self) -> np.ndarray:
        """The share of pairs of a correct and a wrong response in which the correct one has the higher confidence,
        float64 [resamples]; a tie counts half. It is NaN without such a pair.

        All sums are exact, since they add whole numbers: cumulative numbers stay below 2^30, and pairs are summed in
        int64.
        """
        twice_above = self.numbers[self.holding] + self.numbers[self.holding + 1]
        twice_above -= self.wrongs[:-1] + self.wrongs[1:]
        twice = np.einsum("gr,gr->r", self.wrong, twice_above, dtype=np.int64)
        wrong = self.wrongs[-1].astype(np.int64)
        return twice / 2 / (wrong * (self.numbers[-1] - wrong))

    def augrc(self, auroc: np.ndarray) -> np.ndarray:
        """The area under the generalised risk over all coverages (Traub et al. 2024), float64 [resamples].

        The generalised risk is the share of all responses that are wrong and among the most confident ones. The area
        follows from the share e of wrong responses and the AUROC A: (1 - A) e (1 - e) + e^2 / 2. It is NaN without
        responses, but defined for a single class.
        """
        risk = self.wrongs[-1] / self.numbers[-1]
        ranked = np.where((risk > 0) & (risk < 1), (1 - auroc) * risk * (1 - risk), 0.0)
        return ranked + risk**2 / 2

    def aurc(self) -> np.ndarray:
        """The mean selective risk at coverages 1/n, ..., 1 (Geifman, El-Yaniv 2017), float64 [resamples]; NaN of none.

        A wrong response at place k adds 1/k + ... + 1/n = H(n) - H(k - 1) to the sum of the risks, where H(k) is the
        sum of 1/1, ..., 1/k. In a group of m responses after k others every place is equally likely, so that e wrong
        ones add e (H(n) - H(k + m) + 1) - e/m k (H(k + m) - H(k)).
        """
        harmonic = self._harmonic()
        before, after = self.numbers[self.holding], self.numbers[self.holding + 1]
        reached = harmonic.take(after)
        less = reached - harmonic.take(before)
        less *= before
        less /= np.maximum(after - before, 1)
        less += reached
        summed = self.wrongs[-1] * (harmonic[self.numbers[-1]] + 1) - np.einsum("gr,gr->r", self.wrong, less)
        return summed / self.numbers[-1]

    def prr(self, aurc: np.ndarray) -> np.ndarray:
        """The prediction rejection ratio as LM-Polygraph defines it, float64 [resamples]; NaN for a single class.

        It is how far the AURC lies below that of a random order, which is the share of wrong responses, relative to
        that of the best order, with all wrong responses last. A random order has 0, the best has 1, and worse than
        random is negative, without a bound. Malinin's ratio, whose curve counts rejected responses as correct, equals 2
        AUROC - 1 for responses that are either right or wrong, and so says nothing new.
        """
        n, wrong = self.numbers[-1], self.wrongs[-1]
        harmonic, risk = self._harmonic(), wrong / n
        best = (wrong - (n - wrong) * (harmonic[n] - harmonic[n - wrong])) / n
        return np.where((wrong > 0) & (wrong < n), risk - aurc, np.nan) / (risk - best)

    def risk_at(self, coverage: float | np.ndarray) -> np.ndarray:
        """The share of wrong responses among the most confident ones at a coverage; the last one may count in part.

        It is float64 [resamples] for a coverage above 0 and at most 1, or [coverages, resamples] for float64
        [coverages, 1] of them; NaN without responses.
        """
        mass = coverage * self.numbers[-1]
        return self._wrongs_at(*self._place(mass)) / mass

    def adaptive_ece(self, bins: int) -> np.ndarray:
        """The calibration error of bins that hold equally many responses each (Nguyen and O'Connor 2015), float64
        [resamples]; NaN without responses. A response or group on the edge between two bins belongs to both in part."""
        confidences = np.zeros(self.numbers.shape)
        np.multiply(self.number, self.confidence[:, None], out=confidences[1:])
        np.cumsum(confidences, axis=0, out=confidences)
        mass = np.arange(1, bins + 1)[:, None] / bins * self.numbers[-1]
        row, share = self._place(mass)
        gaps = mass - self._wrongs_at(row, share) - _between(confidences, row, row + 1, share)
        return np.abs(np.diff(gaps, axis=0, prepend=0.0)).sum(axis=0) / self.numbers[-1]

    def _place(self, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The group, int64 [..., resamples], in which the first `mass` > 0 responses end, and their share of it."""
        resample = np.arange(mass.shape[-1])
        low, high = np.zeros(mass.shape, dtype=np.int64), np.full(mass.shape, len(self.number) - 1)
        for _ in range(len(self.number).bit_length()):  # halves the range of groups that holds the end
            middle = (low + high) // 2
            beyond = self.numbers[middle + 1, resample] < mass
            low, high = np.where(beyond, np.minimum(middle + 1, high), low), np.where(beyond, high, middle)
        return low, (mass - self.numbers[low, resample]) / self.number[low, resample]

    def _wrongs_at(self, row: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Number of wrong responses up to a place, float64 [..., resamples]."""
        return _between(self.wrongs, np.searchsorted(self.holding, row), np.searchsorted(self.holding, row + 1), share)

    def _harmonic(self) -> np.ndarray:
        """H(0), H(1), ... up to the largest number of responses."""
        return _cumulative(1 / np.arange(1, self.numbers[-1].max() + 1))


def _between(cumulative: np.ndarray, before: np.ndarray, after: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The value at a share of the way from one row to another, float64 [..., resamples]."""
    resample = np.arange(share.shape[-1])
    return cumulative[before, resample] * (1 - share) + cumulative[after, resample] * share


def _cumulative(values: np.ndarray) -> np.ndarray:
    """Cumulative sums along the first axis, beginning with 0."""
    result = np.zeros((len(values) + 1, *values.shape[1:]), dtype=values.dtype)
    np.cumsum(values, axis=0, out=result[1:])
    return result
