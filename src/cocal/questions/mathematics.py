"""Synthetic verifiable mathematics: six families of short-chain arithmetic at five levels.

A problem is drawn from a seed together with its worked solution. The same problem can be worked again with one wrong
step that is carried to the end; because the pre-training corpus contains such solutions, the policy makes mistakes.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A question with its worked solution.

    Attributes:
        question: Text of the question.
        answer: Last value of the solution, a plain integer.
        steps: Equations of the solution.
        family: Problem family.
        level: Difficulty level, from 1 (easiest) to 5.
        seed: Seed from which it was drawn.
    """

    question: str
    answer: str
    steps: tuple[str, ...]
    family: str
    level: int
    seed: int


class _Working:
    """Records the steps of a solution. No random draw may depend on their values.

    The value of the step with index `wrong_at` is off by `slip`, and later steps use the wrong value.
    """

    def __init__(self, wrong_at: int | None = None, slip: int = 0):
        self.steps: list[str] = []
        self._wrong_at = wrong_at
        self._slip = slip

    def step(self, expression: str, value: int) -> int:
        if len(self.steps) == self._wrong_at:
            value += self._slip
        self.steps.append(f"{expression}={value}")
        return value

    def add(self, a: int, b: int) -> int:
        return self.step(f"{a}+{b}", a + b)

    def subtract(self, a: int, b: int) -> int:
        return self.step(f"{a}-{b}", a - b)

    def multiply(self, a: int, b: int) -> int:
        """Long multiplication by the tens and ones of `b` if it has two digits, otherwise of `a` if it exceeds 12."""
        if b > 9:
            parts = [(a, b // 10 * 10), (a, b % 10)]
        elif a > 12:
            parts = [(a // 10 * 10, b), (a % 10, b)]
        else:
            parts = [(a, b)]
        values = [self.step(f"{x}*{y}", x * y) for x, y in parts if x and y]
        return values[0] if len(values) == 1 else self.add(*values)


def _sums(draw: random.Random, level: int, work: _Working) -> tuple[str, int]:
    terms, high = ((2, 20), (2, 50), (3, 30), (3, 60), (4, 90))[level - 1]
    first = draw.randint(2, high)
    question, total, value = str(first), first, first
    for _ in range(terms - 1):
        term = draw.randint(1, high)
        minus = term < total and draw.random() < 0.4
        question += f"{'-' if minus else '+'}{term}"
        total += -term if minus else term
        value = work.subtract(value, term) if minus else work.add(value, term)
    return f"Compute {question}.", value


def _products(draw: random.Random, level: int, work: _Working) -> tuple[str, int]:
    ranges = ((2, 9, 2, 9), (11, 19, 2, 5), (11, 29, 2, 6), (11, 49, 3, 9), (11, 19, 11, 19))
    low, high, small, large = ranges[level - 1]
    a, b = draw.randint(low, high), draw.randint(small, large)
    return f"Compute {a}*{b}.", work.multiply(a, b)


def _equations(draw: random.Random, level: int, work: _Working) -> tuple[str, int]:
    factor = draw.randint(2, (3, 5, 9, 9, 9)[level - 1])
    x = draw.randint(2, (9, 9, 9, 12, 19)[level - 1])
    shift = draw.randint(1, (9, 9, 20, 30, 60)[level - 1])
    minus = shift < factor * x and draw.random() < 0.5
    total = factor * x - shift if minus else factor * x + shift
    question = f"Solve {factor}x{'-' if minus else '+'}{shift}={total}."
    product = work.add(total, shift) if minus else work.subtract(total, shift)
    # after a slip, the factor may not divide the product; the solution then rounds down
    return question, work.step(f"{product}/{factor}", product // factor)


def _remainders(draw: random.Random, level: int, work: _Working) -> tuple[str, int]:
    divisor = draw.randint(3, (5, 6, 9, 9, 12)[level - 1])
    number = draw.randint(divisor + 1, (20, 40, 60, 99, 160)[level - 1])
    quotient = work.step(f"{number}/{divisor}", number // divisor)
    multiple = work.step(f"{divisor}*{quotient}", divisor * quotient)
    return f"Find {number} mod {divisor}.", work.subtract(number, multiple)


def _sequences(draw: random.Random, level: int, work: _Working) -> tuple[str, int]:
    factor, terms = ((1, 3), (1, 4), (2, 3), (2, 4), (3, 4))[level - 1]
    shift = draw.randint(2, (9, 19, 9, 9, 9)[level - 1])
    value = draw.randint(1, (12, 30, 9, 9, 5)[level - 1])
    rule = f"add {shift}" if factor == 1 else f"times {factor} add {shift}"
    question = f"Start {value}, {rule}. Find term {terms}."
    for _ in range(terms - 1):
        if factor > 1:
            value = work.step(f"{value}*{factor}", value * factor)
        value = work.add(value, shift)
    return question, value


_NAMES = ("Ada", "Ben", "Dan", "Eva")
_THINGS = ("pens", "nuts", "cards", "coins")


def _stories(draw: random.Random, level: int, work: _Working) -> tuple[str, int]:
    name, thing = draw.choice(_NAMES), draw.choice(_THINGS)
    start = draw.randint(2, (9, 20, 30, 50, 90)[level - 1])
    boxes = draw.randint(2, (3, 5, 9, 9, 9)[level - 1])
    content = draw.randint(2, (5, 6, 9, 12, 19)[level - 1])
    given = draw.randint(1, min(start + boxes * content - 1, (9, 9, 20, 40, 60)[level - 1]))
    text = f"{name} has {start} {thing}, buys {boxes} boxes of {content}"
    value = work.add(start, work.multiply(content, boxes))
    if level > 2:
        text += f", loses {given}"
        value = work.subtract(value, given)
    return f"{text}. How many {thing}?", value


_FAMILIES: dict[str, Callable[[random.Random, int, _Working], tuple[str, int]]] = {
    "sums": _sums,
    "products": _products,
    "equations": _equations,
    "remainders": _remainders,
    "sequences": _sequences,
    "stories": _stories,
}


def problem(family: str, level: int, seed: int) -> Problem:
    """The problem of a family and level that `seed` draws, with its correct solution."""
    return _work(family, level, seed, _Working())


def wrong_solution(right: Problem, draw: random.Random) -> Problem:
    """The same problem with one wrong step that is carried to the end; `draw` chooses the step and the error."""
    slip = draw.choice((-10, -2, -1, 1, 2, 10))
    return _work(right.family, right.level, right.seed, _Working(draw.randrange(len(right.steps)), slip))


def _work(family: str, level: int, seed: int, work: _Working) -> Problem:
    draw = random.Random(f"{family}/{level}/{seed}")
    question, value = _FAMILIES[family](draw, level, work)
    return Problem(question, str(value), tuple(work.steps), family, level, seed)
