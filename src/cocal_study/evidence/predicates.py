"""The predicates of the claims. Each turns a claim into margins: numbers that are positive where the claim is true.

One rule judges all of them. A margin has a two-sided p-value, from the paired bootstrap over questions and companion
seeds in a study and from Student's t over replicates. A case holds if all of its margins do, and the claim if all of
its cases do, or as many as it demands. That all of them are positive is an intersection-union test, which needs no
adjustment (Berger 1982); where k of n cases are enough, p-values are multiplied by n - k + 1 (Benjamini and Heller
2008). That a margin is negative is one of many things that might speak against the claim, and so its p-value is
adjusted over all margins of the claim (Holm). Numbers without an interval (shares, counts, times) are observed or not
observed. A margin of a confidence that is constant or at chance counts like others, but names this confidence.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from cocal.settings.base import Count, Model
from cocal_study.cubes.better import gain
from cocal_study.evidence.comparisons import holm
from cocal_study.evidence.estimates import Estimate

HOLDS, FAILS, OPEN = "holds", "does not hold", "undecided"
OBSERVED, UNOBSERVED = "observed", "not observed"
FAVOUR = {FAILS: 0, UNOBSERVED: 0, OPEN: 1, HOLDS: 2, OBSERVED: 2}
"""The verdicts, the less favourable first."""
OF_CONFIDENCE = {"ece", "auroc", "brier", "log_loss", "extreme_share", "high_share", "used_bins"}
"""Metrics of a confidence; their margins name the confidences that are degenerate."""
_ROUNDING = 1e-9
"""Sums of decimal fractions may miss zero by this much."""


class Case(NamedTuple):
    """One combination of what a claim's scope lists."""

    backbone: str
    dataset: str
    step: int
    learnt_from: int | None
    comparison: str

    def said(self) -> str:
        """The case in a few words."""
        learnt = f", learnt from {self.learnt_from} steps" if self.learnt_from else ""
        return f"{self.backbone} backbone, {self.dataset}, step {self.step}{learnt}"


class Quantity(NamedTuple):
    """A number that a source may know.

    `metric` is one of the paper's metrics, "brier", "log_loss", "error_share" (of a companion's training data), the
    share of confidences in the lowest and highest of ten bins ("extreme_share") or in the highest two ("high_share"),
    the share of bins that are not empty ("used_bins"), or a time in seconds. `method` may name the states that a
    companion reads after an @: cocal-binary@layer-30.
    """

    metric: str
    method: str
    case: Case


class NotAssessableError(Exception):
    """A source does not know a quantity; the message says why."""


class Reader(ABC):
    """A source of the numbers that predicates need."""

    level = 0.95
    """Confidence level of the intervals."""

    @abstractmethod
    def read(self, quantity: Quantity) -> Estimate:
        """A number. Raises NotAssessableError if the source has none."""

    def variants(self, method: str, case: Case) -> Sequence[str]:
        """The methods that a name stands for on a backbone: several for a group of layers."""
        return [method]

    def degenerate(self, method: str, case: Case) -> bool:
        """True if the confidence of a method is constant or at chance."""
        return False

    def difference(self, metric: str, method: str, baseline: str, case: Case) -> Estimate:
        """The number of a method less that of its baseline."""
        return self.read(Quantity(metric, method, case)) - self.read(Quantity(metric, baseline, case))


class Margin(NamedTuple):
    """A number that is positive where a claim is true, with its interval; without one, both ends are the number."""

    value: float
    lower: float
    upper: float
    p: float = math.nan
    """Two-sided p-value of the hypothesis that it is zero; NaN without an interval."""
    label: str = ""
    """The methods, metric and case whose margin it is."""
    at_chance: str = ""
    """The methods in it whose confidence is constant or at chance, separated by commas."""
    detectable: float = math.nan
    """For replicates, the margin that this many would detect in four of five cases; otherwise NaN."""

    def excludes(self, other: float) -> bool:
        """True if another number lies outside of the interval; False if there is no interval."""
        return self.lower < self.upper and not self.lower <= other <= self.upper


def directed(estimate: Estimate, level: float, label: str = "", **fields: Any) -> Margin:
    """The margin of a difference that is claimed to be positive."""
    return Margin(estimate.value, *estimate.interval(level), estimate.p_value(), label, **fields)


def within(estimate: Estimate, low: float, high: float, level: float, label: str = "", **fields: Any) -> Margin:
    """The margin of a number that is claimed to lie in a range: its distance from the nearer end.

    Inside the range both ends have to be separable from the number, outside of it the nearer one.
    """

    def inside(number: float) -> float:
        return min(number - low, high - number)

    lower, upper = estimate.interval(level)
    middle = (low + high) / 2
    best = middle if lower <= middle <= upper else lower if lower > middle else upper
    above, below = (estimate - low).p_value(), (estimate - high).p_value()
    p = max(above, below) if low <= estimate.value <= high else above if estimate.value < low else below
    return Margin(inside(estimate.value), min(inside(lower), inside(upper)), inside(best), p, label, **fields)


class _Predicate(Model, ABC):
    inclusive: ClassVar[bool] = False
    """True if a margin of zero is one in favour."""

    at_least: Count | None = None
    """In how many cases it is true; by default, in as many as `share` says."""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """In which share of the cases it is true."""

    @abstractmethod
    def cases(self, cases: Sequence[Case], reader: Reader) -> Iterator[list[Margin]]:
        """The margins of each case of the claim. A case of the scope may give several cases, or all of them one."""

    def needed(self, cases: int) -> int:
        return self.at_least or math.ceil(self.share * cases - _ROUNDING)

    def verdicts(self, cases: Sequence[Sequence[Margin]], level: float) -> list[list[str]]:
        """The verdict of every margin: whether it is positive, by p-values multiplied by n - k + 1, or negative, by
        p-values adjusted over all margins of the claim."""
        against = iter(holm([margin.p for case in cases for margin in case]))
        choices = len(cases) - self.needed(len(cases)) + 1
        tested = [[(margin, next(against), choices * margin.p) for margin in case] for case in cases]
        return [
            [self._verdict(margin, p if margin.value > 0 else q, 1 - level) for margin, q, p in case] for case in tested
        ]

    def _verdict(self, margin: Margin, p: float, significant: float) -> str:
        if math.isnan(p):
            reached = margin.upper >= -_ROUNDING if self.inclusive else margin.upper > _ROUNDING
            return OBSERVED if reached else UNOBSERVED
        if not p < significant:
            return OPEN
        return HOLDS if margin.value > 0 else FAILS

    def decide(self, cases: Sequence[Sequence[Margin]], level: float) -> tuple[Margin, str]:
        """The deciding margin and its verdict, which is the claim's. A case is decided by its least favourable margin,
        by verdict and then by value. If the claim needs k cases, the k-th most favourable one decides it."""
        judged = zip(cases, self.verdicts(cases, level), strict=True)
        return self.deciding([list(zip(*case, strict=True)) for case in judged])

    def deciding(self, cases: Sequence[Sequence[tuple[Margin, str]]]) -> tuple[Margin, str]:
        """The deciding margin and its verdict, among margins that already have theirs."""

        def favour(judged: tuple[Margin, str]) -> tuple[int, float]:
            return FAVOUR[judged[1]], judged[0].value

        ranked = sorted((min(case, key=favour) for case in cases), key=favour, reverse=True)
        return ranked[self.needed(len(cases)) - 1]


class _OfEachCase(_Predicate):
    """A predicate that is true or not in every case of the scope by itself."""

    def cases(self, cases: Sequence[Case], reader: Reader) -> Iterator[list[Margin]]:
        for case in cases:
            margins = self.margins(case, reader)
            yield from [margins] if getattr(self, "together", True) else [[margin] for margin in margins]

    @abstractmethod
    def margins(self, case: Case, reader: Reader) -> list[Margin]:
        """The margins of a case of the scope. Unless they are claimed together, each is a case of its own."""


class _OfPairs(_Predicate):
    """A predicate about differences between each method and each baseline in every metric."""

    methods: tuple[str, ...]
    than: tuple[str, ...]
    metrics: tuple[str, ...]
    paired: bool = False
    """True if the first method is compared with the first baseline, the second with the second."""

    def advantages(self, case: Case, reader: Reader) -> list[tuple[Estimate, dict]]:
        """The differences of methods to their baselines, positive where the method is better, with the other fields of
        their margins."""
        pairs = list(zip(self.methods, self.than, strict=self.paired))
        if not self.paired:
            baselines = [baseline for name in self.than for baseline in reader.variants(name, case)]
            methods = [method for name in self.methods for method in reader.variants(name, case)]
            pairs = [(method, baseline) for method in methods for baseline in baselines if method != baseline]
        advantages = []
        for method, baseline in pairs:
            for metric in self.metrics:
                difference = reader.difference(metric, method, baseline, case)
                fields = _fields(metric, method, baseline, case, reader)
                advantages.append((gain(metric, difference), fields))
        return advantages


def _of_methods(metric: str, methods: Sequence[str], case: Case, reader: Reader) -> list[tuple[Estimate, str]]:
    """The number of each method, and the label of its margin."""
    return [(reader.read(Quantity(metric, name, case)), f"{name}, {metric}, {case.said()}") for name in methods]


def _fields(metric: str, method: str, baseline: str, case: Case, reader: Reader) -> dict:
    """The label of a margin between two methods, and those of them whose confidence is degenerate."""
    chance = [name for name in (method, baseline) if metric in OF_CONFIDENCE and reader.degenerate(name, case)]
    return {"label": f"{method} and {baseline}, {metric}, {case.said()}", "at_chance": ", ".join(chance)}


class Better(_OfPairs, _OfEachCase):
    """Each method is better than each baseline in every metric."""

    predicate: Literal["better"]
    together: bool = True
    """True if a case needs all of methods, baselines and metrics; otherwise each of them is a case."""

    def margins(self, case: Case, reader: Reader) -> list[Margin]:
        return [directed(lead, reader.level, **fields) for lead, fields in self.advantages(case, reader)]


class Greater(_OfEachCase):
    """A number of each method is greater than that of each baseline, or than another number of its own."""

    predicate: Literal["greater"]
    metric: str
    methods: tuple[str, ...]
    than: tuple[str, ...] = ()
    than_metric: str = ""
    """The other number; by default the same one."""
    together: bool = True
    """True if a case needs all methods and baselines; otherwise each of them is a case."""

    def margins(self, case: Case, reader: Reader) -> list[Margin]:
        margins = []
        for method in self.methods:
            for baseline in self.than or (method,):
                left = reader.read(Quantity(self.metric, method, case))
                right = reader.read(Quantity(self.than_metric or self.metric, baseline, case))
                fields = {"label": f"{method}, {self.metric} and {self.than_metric}, {case.said()}"}
                if self.than:
                    fields = _fields(self.metric, method, baseline, case, reader)
                margins.append(directed(left - right, reader.level, **fields))
        return margins


class Changes(_Predicate):
    """Numbers of each method rise and fall from each case of the scope to the next."""

    predicate: Literal["changes"]
    methods: tuple[str, ...]
    rises: tuple[str, ...] = ()
    falls: tuple[str, ...] = ()

    def cases(self, cases: Sequence[Case], reader: Reader) -> Iterator[list[Margin]]:
        for before, after in pairwise(cases):
            margins = []
            for method in self.methods:
                for metric in (*self.rises, *self.falls):
                    first, second = (reader.read(Quantity(metric, method, case)) for case in (before, after))
                    change = second - first if before.dataset == after.dataset else second.unpaired(first)
                    label = f"{method}, {metric}, {before.said()} to {after.said()}"
                    margins.append(directed(change if metric in self.rises else -change, reader.level, label))
            yield margins


class Widens(_OfPairs):
    """The advantage of each method over each baseline grows from the first case of the scope to the second."""

    predicate: Literal["widens"]

    def cases(self, cases: Sequence[Case], reader: Reader) -> Iterator[list[Margin]]:
        before, after = cases
        margins = []
        advantages = self.advantages(after, reader), self.advantages(before, reader)
        for (later, fields), (sooner, others) in zip(*advantages, strict=True):
            fields |= {"at_chance": fields["at_chance"] or others["at_chance"]}
            margins.append(directed(later.unpaired(sooner), reader.level, **fields))
        yield margins


class Steadier(_Predicate):
    """A number of each method ranges less over the cases of the scope than that of each baseline."""

    predicate: Literal["steadier"]
    metric: str
    methods: tuple[str, ...]
    than: tuple[str, ...]

    def cases(self, cases: Sequence[Case], reader: Reader) -> Iterator[list[Margin]]:
        def span(method: str) -> Estimate:
            numbers = [reader.read(Quantity(self.metric, method, case)) for case in cases]
            resampled = np.ptp([number.resampled for number in numbers], axis=0)
            return Estimate(np.ptp([number.value for number in numbers]), resampled, questions=numbers[0].questions)

        yield [
            directed(span(baseline) - span(method), reader.level, f"{method} and {baseline}, range of {self.metric}")
            for method in self.methods
            for baseline in self.than
        ]


class Above(_OfEachCase):
    """A number of each method is greater than a stated one."""

    predicate: Literal["above"]
    metric: str
    methods: tuple[str, ...]
    number: float

    def margins(self, case: Case, reader: Reader) -> list[Margin]:
        numbers = _of_methods(self.metric, self.methods, case, reader)
        return [directed(number - self.number, reader.level, label) for number, label in numbers]


class Alike(_OfPairs, _OfEachCase):
    """Each method differs from each baseline by no more than a tolerance, which the ledger sets."""

    inclusive: ClassVar[bool] = True

    predicate: Literal["alike"]
    tolerance: Annotated[float, Field(gt=0)]

    def margins(self, case: Case, reader: Reader) -> list[Margin]:
        leads = self.advantages(case, reader)
        return [within(lead, -self.tolerance, self.tolerance, reader.level, **fields) for lead, fields in leads]


class Between(_OfEachCase):
    """Numbers lie in a stated range: observed if every interval reaches into it."""

    inclusive: ClassVar[bool] = True

    predicate: Literal["between"]
    metric: str
    methods: tuple[str, ...]
    low: float
    high: float

    def margins(self, case: Case, reader: Reader) -> list[Margin]:
        numbers = _of_methods(self.metric, self.methods, case, reader)
        return [within(number, self.low, self.high, reader.level, label) for number, label in numbers]

    def _verdict(self, margin: Margin, p: float, significant: float) -> str:
        return super()._verdict(margin, math.nan, significant)


Predicate = Annotated[
    Better | Greater | Changes | Widens | Steadier | Above | Alike | Between, Field(discriminator="predicate")
]
