"""The predicates of the claims. Each turns a claim into margins: numbers that are positive where the claim is true.

The same predicates judge the paper's published numbers, a study and its replicates; a source only reads quantities. A
claim has cases, such as budgets; a case holds if all of its margins do, and the claim holds if all of its cases do, or
as many as it says (`at_least`). Published numbers have no interval, so that their sign decides; equal numbers are not
separable. With an interval, a margin holds if all of the interval is positive, does not hold if all of it is negative,
and is otherwise not separable from zero.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from cocal.config.base import Count, Model
from cocal.evidence.estimates import Estimate
from cocal.metrics.shown import BETTER

HOLDS, FAILS, OPEN = "holds", "does not hold", "not separable"
_ROUNDING = 1e-9
"""Sums of decimal fractions may miss zero by this much."""


class Case(NamedTuple):
    """One combination of what a claim's scope lists."""

    backbone: str
    dataset: str
    step: int
    learnt_from: int | None
    comparison: str


class Quantity(NamedTuple):
    """A number that a source may know.

    `metric` is one of the paper's metrics, "error_share" (of a companion's training data), "extreme_share" (of
    confidences in the lowest and highest bin), a count of "retained" responses, or a time in seconds. `method` may name
    the states that a companion reads after an @: cocal-binary@last, cocal-binary@layer-30.
    """

    metric: str
    method: str
    case: Case


class NotAssessableError(Exception):
    """A source does not know a quantity; the message says why."""


class Reader(NamedTuple):
    """The questions that a predicate may ask a source.

    Attributes:
        read: Returns a quantity.
        variants: Returns the methods that a name stands for on a backbone: several for a group of layers.
        level: Confidence level of the intervals.
    """

    read: Callable[[Quantity], Estimate]
    variants: Callable[[str, Case], Sequence[str]]
    level: float = 0.95

    def all_of(self, names: Sequence[str], case: Case) -> list[str]:
        """The methods that some names stand for."""
        return [method for name in names for method in self.variants(name, case)]


class Margin(NamedTuple):
    """A number that is positive where a claim is true, with its interval, which is the number itself if it has none."""

    value: float
    lower: float
    upper: float

    @property
    def verdict(self) -> str:
        """The side of zero on which all of the interval lies, in words."""
        if self.lower > _ROUNDING:
            return HOLDS
        return FAILS if self.upper < -_ROUNDING else OPEN


def directed(estimate: Estimate, level: float) -> Margin:
    """The margin of a difference that is claimed to be positive."""
    return Margin(estimate.value, *estimate.interval(level))


def within(estimate: Estimate, low: float, high: float, level: float) -> Margin:
    """The margin of a number that is claimed to lie in a range: its distance from the nearer end."""

    def inside(number: float) -> float:
        return min(number - low, high - number)

    lower, upper = estimate.interval(level)
    middle = (low + high) / 2
    best = middle if lower <= middle <= upper else lower if lower > middle else upper
    return Margin(inside(estimate.value), min(inside(lower), inside(upper)), inside(best))


class _Predicate(Model):
    at_least: Count | None = None
    """In how many cases it is true; by default, in all."""

    def decide(self, cases: Sequence[Sequence[Margin]]) -> tuple[Margin, str]:
        """The deciding margin, and the verdict, which is its own.

        The margin of a case is its least favourable one: one that does not hold before one that is not separable before
        one that holds, and of these the least. That of the claim is the margin of the last case that it needs.
        """
        needed = self.at_least or len(cases)
        ranked = sorted((min(case, key=_favour) for case in cases), key=_favour, reverse=True)
        return ranked[needed - 1], ranked[needed - 1].verdict


def _favour(margin: Margin) -> tuple[int, float]:
    """Order of margins, the least favourable first."""
    return (FAILS, OPEN, HOLDS).index(margin.verdict), margin.value


class _OfNumbers(_Predicate):
    """A predicate about numbers, with which an interval is only compatible or not."""

    def decide(self, cases: Sequence[Sequence[Margin]]) -> tuple[Margin, str]:
        """The deciding margin; the claim holds if every interval reaches into its range."""
        margin = min(margin for case in cases for margin in case)
        reached = all(margin.upper >= -_ROUNDING for case in cases for margin in case)
        return margin, HOLDS if reached else FAILS


class _OfPairs(_Predicate):
    """A predicate about differences between each method and each rival in every metric."""

    methods: tuple[str, ...]
    than: tuple[str, ...]
    metrics: tuple[str, ...]
    paired: bool = False
    """True if the first method is compared with the first rival, the second with the second."""

    def advantages(self, case: Case, reader: Reader) -> list[Estimate]:
        """The differences of methods to their rivals, positive where the method is better: higher, or lower for ECE."""
        if self.paired:
            pairs = list(zip(self.methods, self.than, strict=True))
        else:
            rivals = reader.all_of(self.than, case)
            pairs = [(one, rival) for one in reader.all_of(self.methods, case) for rival in rivals if one != rival]
        found = []
        for one, rival in pairs:
            for metric in self.metrics:
                difference = reader.read(Quantity(metric, one, case)) - reader.read(Quantity(metric, rival, case))
                found.append(-difference if BETTER[metric] == "lower" else difference)
        return found


class Better(_OfPairs):
    """Each method is better than each rival in every metric."""

    predicate: Literal["better"]
    together: bool = True
    """True if a case needs all of methods, rivals and metrics; otherwise each of them is a case."""

    def cases(self, cases: Sequence[Case], reader: Reader) -> Iterator[list[Margin]]:
        """Margins in the direction in which the metric is better."""
        for case in cases:
            margins = [directed(advantage, reader.level) for advantage in self.advantages(case, reader)]
            yield from [margins] if self.together else [[margin] for margin in margins]


class Greater(_Predicate):
    """A number of each method is greater than that of each rival, or than another number of its own."""

    predicate: Literal["greater"]
    metric: str
    methods: tuple[str, ...]
    than: tuple[str, ...] = ()
    than_metric: str = ""
    """The other number; by default the same one."""
    together: bool = True
    """True if a case needs all methods and rivals; otherwise each of them is a case."""

    def cases(self, cases: Sequence[Case], reader: Reader) -> Iterator[list[Margin]]:
        """Margins of the greater number."""
        for case in cases:
            margins = []
            for method in self.methods:
                for rival in self.than or (method,):
                    left = reader.read(Quantity(self.metric, method, case))
                    right = reader.read(Quantity(self.than_metric or self.metric, rival, case))
                    margins.append(directed(left - right, reader.level))
            yield from [margins] if self.together else [[margin] for margin in margins]


class Changes(_Predicate):
    """Numbers of each method rise and fall from each case of the scope to the next."""

    predicate: Literal["changes"]
    methods: tuple[str, ...]
    rises: tuple[str, ...] = ()
    falls: tuple[str, ...] = ()

    def cases(self, cases: Sequence[Case], reader: Reader) -> Iterator[list[Margin]]:
        """Margins of the changes from each case to the next one; each such change is a case."""
        for before, after in pairwise(cases):
            margins = []
            for method in self.methods:
                for metric in (*self.rises, *self.falls):
                    first, second = (reader.read(Quantity(metric, method, case)) for case in (before, after))
                    change = second - first if before.dataset == after.dataset else second.unpaired(first)
                    margins.append(directed(change if metric in self.rises else -change, reader.level))
            yield margins


class Widens(_OfPairs):
    """The advantage of each method over each rival grows from the first case of the scope to the second."""

    predicate: Literal["widens"]

    def cases(self, cases: Sequence[Case], reader: Reader) -> Iterator[list[Margin]]:
        """Margins of the differences between the advantages."""
        before, after = cases
        both = zip(self.advantages(after, reader), self.advantages(before, reader), strict=True)
        yield [directed(later.unpaired(sooner), reader.level) for later, sooner in both]


class Alike(_OfPairs):
    """Each method differs from each rival by no more than a tolerance, which the ledger sets."""

    predicate: Literal["alike"]
    tolerance: Annotated[float, Field(gt=0)]

    def cases(self, cases: Sequence[Case], reader: Reader) -> Iterator[list[Margin]]:
        """Margins within the tolerance."""
        for case in cases:
            yield [within(one, -self.tolerance, self.tolerance, reader.level) for one in self.advantages(case, reader)]


class Value(_OfNumbers):
    """A number, or the difference of a method to its rival, is the stated one, within the tolerance of its rounding."""

    predicate: Literal["value"]
    metric: str
    method: str
    than: str = ""
    number: float
    tolerance: Annotated[float, Field(ge=0)]

    def cases(self, cases: Sequence[Case], reader: Reader) -> Iterator[list[Margin]]:
        """Margins within the tolerance of the number."""
        for case in cases:
            found = reader.read(Quantity(self.metric, self.method, case))
            if self.than:
                found = found - reader.read(Quantity(self.metric, self.than, case))
            yield [within(found - self.number, -self.tolerance, self.tolerance, reader.level)]


class Between(_OfNumbers):
    """Numbers lie in a range."""

    predicate: Literal["between"]
    metric: str
    methods: tuple[str, ...]
    low: float
    high: float

    def cases(self, cases: Sequence[Case], reader: Reader) -> Iterator[list[Margin]]:
        """Margins within the range."""
        for case in cases:
            quantities = [Quantity(self.metric, method, case) for method in self.methods]
            yield [within(reader.read(one), self.low, self.high, reader.level) for one in quantities]


Predicate = Annotated[Better | Greater | Changes | Widens | Alike | Value | Between, Field(discriminator="predicate")]


def undefined(margin: Margin) -> bool:
    """True if a margin rests on an undefined number, such as the AUROC of a single class."""
    return math.isnan(margin.value) or math.isnan(margin.lower)
