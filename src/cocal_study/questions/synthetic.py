"""Synthetic questions: verifiable mathematics, and facts about a world of people.

A mathematical problem is drawn from a seed together with its worked solution, in one of six families of short-chain
arithmetic at five levels. The same problem can be worked again with one wrong step that is carried to the end; because
the pre-training corpus contains such solutions, the policy makes mistakes.

People of the world have a city, a job and a mentor each. Popularity decides how often the corpus mentions a person, so
that the policy knows some facts and not others. Questions follow mentors: a question with one hop asks for a fact about
a person, one with two hops for a fact about the person's mentor, and so on. Answers are names, never numbers: factual
questions share neither words nor answer type with the mathematics that companions are trained on.
"""

import math
import random
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

_STARTS = ("Ba", "Ce", "Do", "Fi", "Ga", "Hu", "Jo", "Ka", "Le", "Mi", "No", "Pa", "Ri", "Su", "Te", "Va")
_ENDS = ("dan", "fer", "gul", "kin", "lor", "mas", "nel", "pim", "rak", "sev", "tov", "wyn", "zed", "bri", "cam")
_CITIES = ("Arden", "Bexley", "Corun", "Delmar", "Estra", "Farrow", "Gilden", "Hollin", "Istra", "Juna")
_JOBS = ("baker", "carver", "diver", "farmer", "glazier", "hunter", "judge", "mason", "pilot", "weaver")
RELATIONS = ("city", "job", "mentor")


class Fact(NamedTuple):
    """A question about the world, with the chain of facts that leads to the answer, each as a sentence."""

    question: str
    answer: str
    steps: tuple[str, ...]
    relation: str
    hops: int


class World:
    """The people, at most 3,600, and their facts, drawn from a seed. The person of rank r is mentioned in proportion to
    (r + 1) ** -popularity_exponent."""

    def __init__(self, people: int, popularity_exponent: float, seed: int):
        draw = random.Random(f"world/{seed}")
        names = [f"{start}{end}" for start in _STARTS for end in _ENDS]
        pairs = [f"{first} {last}" for first in names[:60] for last in names[60:120]]
        self.people = draw.sample(pairs, people)
        self.mentions = [(rank + 1.0) ** -popularity_exponent for rank in range(people)]
        self.facts = {
            "city": [draw.choice(_CITIES) for _ in self.people],
            "job": [draw.choice(_JOBS) for _ in self.people],
            "mentor": [self.people[self._mentor(rank, draw)] for rank in range(people)],
        }

    @cached_property
    def _rank(self) -> dict[str, int]:
        return {name: rank for rank, name in enumerate(self.people)}

    def _mentor(self, rank: int, draw: random.Random) -> int:
        """Rank of a mentor, somebody else. The chance of a person is proportional to the root of the popularity."""
        others = [(other, weight**0.5) for other, weight in enumerate(self.mentions) if other != rank]
        ranks, weights = zip(*others, strict=True)
        return draw.choices(ranks, weights)[0]

    def mentioned(self, draw: random.Random) -> int:
        """Rank of a person, drawn by popularity."""
        return draw.choices(range(len(self.people)), weights=self.mentions)[0]

    def ask(self, person: int, relation: str, hops: int) -> Fact:
        """The question for `relation` of the person who is `hops` - 1 mentors away from the person of rank `person`."""
        name, steps = self.people[person], []
        described = name
        for _ in range(hops - 1):
            mentor = self.facts["mentor"][self._rank[name]]
            steps.append(f"The mentor of {name} is {mentor}.")
            name, described = mentor, f"the mentor of {described}"
        answer = self.facts[relation][self._rank[name]]
        steps.append(_STATEMENTS[relation].format(name=name, answer=answer))
        question = _QUESTIONS[relation].format(name=described)
        return Fact(question, answer, tuple(steps), relation, hops)


_STATEMENTS = {
    "city": "{name} lives in {answer}.",
    "job": "{name} is a {answer}.",
    "mentor": "The mentor of {name} is {answer}.",
}
_QUESTIONS = {
    "city": "Where does {name} live?",
    "job": "What does {name} do?",
    "mentor": "Who is the mentor of {name}?",
}


class Problem(NamedTuple):
    """A question with its worked solution, whose last value is the answer, a plain integer.

    Levels go from 1 (easiest) to 5. The spread is the standard deviation of the logarithm of the number of steps within
    a level.
    """

    question: str
    answer: str
    steps: tuple[str, ...]
    family: str
    level: int
    seed: int
    spread: float = 0.0


class _Working:
    """Records the steps of a solution. No random draw may depend on their values.

    The value of the step with index `wrong_at` is off by `slip`, and later steps use the wrong value.
    """

    def __init__(self, spread: float = 0.0, wrong_at: int | None = None, slip: int = 0):
        self.steps: list[str] = []
        self.spread = spread
        self._wrong_at = wrong_at
        self._slip = slip

    def step(self, expression: str, value: int, label: str = "") -> int:
        if len(self.steps) == self._wrong_at:
            value += self._slip
        self.steps.append(f"{label}: {expression}={value}" if label else f"{expression}={value}")
        return value

    def add(self, a: int, b: int, label: str = "") -> int:
        return self.step(f"{a}+{b}", a + b, label)

    def subtract(self, a: int, b: int, label: str = "") -> int:
        return self.step(f"{a}-{b}", a - b, label)

    def multiply(self, a: int, b: int) -> int:
        """Multiply by a digit, the tens and ones of `a` separately if it exceeds 12."""
        parts = [(a // 10 * 10, b), (a % 10, b)] if a > 12 else [(a, b)]
        values = [self.step(f"{x}*{y}", x * y) for x, y in parts if x and y]
        return values[0] if len(values) == 1 else self.add(values[0], values[1])

    def shift(self, value: int, shifts: list[int]) -> int:
        """Add or subtract numbers, each step under the letter that the question gives to its number."""
        for label, by in zip(_LABELS, shifts, strict=False):
            value = self.add(value, by, label) if by > 0 else self.subtract(value, -by, label)
        return value


_LABELS = "abcdefgh"


def _shifts(draw: random.Random, start: int, count: int, work: _Working) -> list[int]:
    """Numbers from 1 to 9 to add or subtract one after the other, with totals from 1 to 99: `count` of them or, where
    the lengths of solutions are spread, a log-normal number around `count`."""
    shifts: list[int] = []
    if work.spread:
        drawn = round((count + 0.5) * math.exp(work.spread * draw.gauss(0, 1)) - 0.5)
        count = max(min(count, 1), min(drawn, len(_LABELS)))  # a sum keeps a step
    for _ in range(count):
        number, total = draw.randint(1, 9), start + sum(shifts)
        minus = total + number > 99 or (draw.random() < 0.5 and number < total)
        shifts.append(-number if minus else number)
    return shifts


def _written(shifts: list[int], plus: str = "+", minus: str = "-") -> str:
    """The numbers as a question states them, such as `, a+7, b-3`."""
    parts = zip(_LABELS, shifts, strict=False)
    return "".join(f", {label}{plus if by > 0 else minus}{abs(by)}" for label, by in parts)


def _sums(draw: random.Random, level: int, work: _Working) -> tuple[str, int]:
    first = draw.randint(2, 20)
    shifts = _shifts(draw, first, (1, 2, 3, 5, 7)[level - 1], work)
    return f"Compute {first}{_written(shifts)}.", work.shift(first, shifts)


def _products(draw: random.Random, level: int, work: _Working) -> tuple[str, int]:
    low, high = ((2, 6), (2, 9), (2, 9), (2, 12), (13, 19))[level - 1]
    a, b = draw.randint(low, high), draw.randint(2, 5 if level == 5 else 8)
    shifts = _shifts(draw, a * b, (0, 1, 2, 4, 4)[level - 1], work)
    return f"Compute {a}*{b}{_written(shifts)}.", work.shift(work.multiply(a, b), shifts)


def _equations(draw: random.Random, level: int, work: _Working) -> tuple[str, int]:
    factor, x = draw.randint(2, (4, 6, 9, 9, 9)[level - 1]), draw.randint(2, 9)
    shifts = _shifts(draw, factor * x, (0, 1, 2, 4, 6)[level - 1], work)
    start, undone = factor * x + sum(shifts), [-by for by in reversed(shifts)]
    product = work.shift(start, undone)
    # after a slip, the factor may not divide the product; the solution then rounds down
    return f"Solve {factor}x={start}{_written(undone)}.", work.step(f"{product}/{factor}", product // factor)


def _remainders(draw: random.Random, level: int, work: _Working) -> tuple[str, int]:
    divisor = draw.randint(3, (4, 5, 6, 9, 9)[level - 1])
    start = draw.randint(divisor + 1, (12, 20, 30, 40, 60)[level - 1])
    shifts = _shifts(draw, start, (0, 0, 1, 2, 4)[level - 1], work)
    number = work.shift(start, shifts)
    quotient = work.step(f"{number}/{divisor}", number // divisor)
    multiple = work.step(f"{quotient}*{divisor}", quotient * divisor)
    return f"Find {start}{_written(shifts)}, mod {divisor}.", work.subtract(number, multiple)


def _sequences(draw: random.Random, level: int, work: _Working) -> tuple[str, int]:
    factor, terms = ((1, 1), (1, 2), (1, 3), (2, 2), (2, 3))[level - 1]
    shift, value = draw.randint(1, 9 if level < 5 else 7), draw.randint(1, (20, 20, 20, 9, 6)[level - 1])
    rule = f"add {shift}" if factor == 1 else f"times {factor} add {shift}"
    question = f"Start {value}, {rule}. Find {_LABELS[terms - 1]}."
    for label in _LABELS[:terms]:
        if factor > 1:
            value = work.step(f"{value}*{factor}", value * factor)
        value = work.add(value, shift, label)
    return question, value


_NAMES = ("Ada", "Ben", "Dan", "Eva")
_THINGS = ("pens", "nuts", "cards", "coins")


def _stories(draw: random.Random, level: int, work: _Working) -> tuple[str, int]:
    name, thing = draw.choice(_NAMES), draw.choice(_THINGS)
    start, boxes, content = draw.randint(2, 9), draw.randint(2, 9), draw.randint(2, (3, 5, 7, 9, 9)[level - 1])
    shifts = _shifts(draw, start + boxes * content, (0, 0, 1, 3, 5)[level - 1], work)
    value = work.shift(work.add(work.multiply(boxes, content), start), shifts)
    events = _written(shifts, " finds ", " loses ")
    return f"{name} has {start} {thing}, buys {boxes} boxes of {content}{events}. How many {thing}?", value


_FAMILIES: dict[str, Callable[[random.Random, int, _Working], tuple[str, int]]] = {
    "sums": _sums,
    "products": _products,
    "equations": _equations,
    "remainders": _remainders,
    "sequences": _sequences,
    "stories": _stories,
}


def problem(family: str, level: int, seed: int, spread: float = 0.0) -> Problem:
    """The problem of a family and level that `seed` draws, with its correct solution."""
    return _work(family, level, seed, _Working(spread))


def wrong_solution(right: Problem, draw: random.Random) -> Problem:
    """The same problem with one wrong step that is carried to the end; `draw` chooses the step and the error."""
    slip = draw.choice((-10, -2, -1, 1, 2, 10))
    return _work(right.family, right.level, right.seed, _Working(right.spread, draw.randrange(len(right.steps)), slip))


def _work(family: str, level: int, seed: int, work: _Working) -> Problem:
    draw = random.Random(f"{family}/{level}/{seed}")
    question, value = _FAMILIES[family](draw, level, work)
    return Problem(question, str(value), tuple(work.steps), family, level, seed, work.spread)
