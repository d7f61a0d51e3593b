"""Equivalence of mathematical answers: what is equal, and what must not be."""

import time

import numpy as np
import pytest

from cocal.answers.equivalence import Verifier
from cocal.answers.normalise import contradicted, without_unit
from cocal.answers.settings import VerifierSettings
from verified import equivalent

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def verifier():
    """A verifier with one process and a short time-out."""
    with Verifier(VerifierSettings(timeout=2.0)) as verifier:
        yield verifier


SAME = r"""
5             | x=5
025           | 25
-0            | 0
1/2           | 0.5
\frac{1}{2}   | 1/2
1000          | 1,000
336^\circ     | 336
27.0          | 27
\sqrt{2}      | 2^{1/2}
x^2+2x+1      | (x+1)^2
-1            | −1
2516_8        | 2516_8; 2516_{8}; 02516_8; 2516_{\text{eight}}; 2516 \text{ (base 8)}; 2516
2516          | 2516_8
1011001_{(2)} | 1011001_2
1BED_{16}     | \text{1bed}_{16}
\pi           | pi
2\pi          | 2pi; 2 pi
\frac{\pi}{2} | pi/2
\frac{5\pi}{12} | 5*pi/12
pi            | \pi
2000          | 2000 calories
2,000         | 2000 calories
15            | 15 sides
10            | 10 years old; 10 \text{ years old}
10 years old  | 10
\frac{1}{2}   | \frac{1}{2} cups
0.5           | \frac{1}{2} cups
3             | 3 oranges
-4            | -4 degrees Celsius
15 sides      | 15 sides
1,2           | 1, 2; 2,1; \{1,2\}
\{1,2\}       | 2,1
(1,2)         | \left( 1, 2 \right); x=1,y=2
(1,2]         | \left(1,\,2\right]
1,000         | 1000
(1,2),(3,4)   | (3,4),(1,2)
77            | €77; £77; 77 €; \pounds 77
¥77           | 77
1000          | 1\ 000; 1 000
1 234 567     | 1234567
48            | 48\,g; 48~kg; 48\ mL
3/2           | 1 1/2
1 1/2         | 1.5
-3/2          | -1 1/2
(-\infty, 2)  | x < 2
x\geq 2       | [2,\infty)
[2,\infty)    | x \ge 2
"""
"""A gold answer and answers that equal it."""
DIFFERENT = r"""
5             | 6; -5; \frac{1}{0}; }{; \; 五
1/2           | 0.51
BED_{16}      | \text{bed}_{\text{sixteen}}
2516_8        | 2516_9; 2516_{10}; 2516_{\text{nine}}; 2516 base 9; 2517_8; -2516_8; 2517
2516_9        | 2516_8
10_8          | 8_{10}
x_1           | x_2
200203_{-4}   | 200203_{4}
\pi           | 2pi; pi/2; 3.14; p; pie
5             | 5pi; 5 million; 5 dozen eggs; 5 hundred
15            | 16 sides; -15 sides; fifteen
2000          | 200 calories
3 apples      | 3 oranges; 4 apples
3             | 3 squared; 3 times four; 3 or four; 3 thirds; 3 is impossible; 3x; 3 x; 3 xyz; 3 sin x
3             | sides 3; 4 sides 3
1,2           | (1,2); \left(1,2\right); [1,2]
(1,2)         | 1,2; [1,2]; (2,1); \{1,2\}; (1,3)
2,1           | (1,2)
1,2,3         | (1,2,3)
€77           | £77; 78
128           | 128 children and 150 adults; 128 or 150
0             | (b)0; (b) 1
3             | 3\,x; x > 3
5             | 1 005
1/2           | 1 1/3
12            | 1 2
(0,1)         | 0 \le x < 1
"""
"""Letters alone may be variables, and a question asks for one base."""


@pytest.mark.parametrize(("table", "same"), [(SAME, True), (DIFFERENT, False)], ids=["same", "different"])
def test_equal_and_different_answers(verifier, table, same):
    rows = [line.split(" | ") for line in table.strip().splitlines()]
    pairs = [(gold.strip(), answer) for gold, answers in rows for answer in answers.split("; ")]
    verdicts = equivalent(verifier, pairs)
    assert [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict != same] == []


HOSTILE = ["", "{" * 200 + "5" + "}" * 200 + "+1", "\x00", "🙂" * 100, "5" * MEGABYTE]
"""The last of them is longer than max_answer_length."""


def test_hostile_answers_equal_nothing(verifier):
    pairs = [*(("5", text) for text in HOSTILE), ("", "5"), (HOSTILE[-1], HOSTILE[-1])]
    verdicts = equivalent(verifier, pairs)
    assert verdicts.dtype == bool
    assert not verdicts.any()


def test_correct_takes_any_alias_and_no_answer_is_wrong(verifier):
    golds = [["7", "1/2"], ["7"], ["7", "8"], ["7"]]
    assert verifier.correct(golds, ["0.5", "7", None, "8"]).values.tolist() == [True, True, False, False]


def test_classes_partition_each_pool_whatever_its_order(verifier):
    answers = ["1/2", "0.5", "7", None, r"\frac{2}{4}", "007", None, "x"]
    labels = verifier.classes(answers).values
    assert labels.tolist() == [0, 0, 1, -1, 0, 1, -1, 2]
    order = np.random.default_rng(0).permutation(len(answers))
    shuffled = verifier.classes([answers[i] for i in order]).values
    together = labels[:, None] == labels[None, :]
    assert ((shuffled[:, None] == shuffled[None, :]) == together[np.ix_(order, order)]).all()


def test_classes_are_numbered_within_their_pool(verifier):
    labels = verifier.classes(["5", "5", "6", "6"], pools=["a", "b", "b", "a"]).values
    assert labels.tolist() == [0, 0, 1, 1]
    labels = verifier.classes(["5", "6", "6", "7"], pools=["a", "b", "a", "b"]).values
    assert labels.tolist() == [0, 0, 1, 1], "a pool has no classes of another's answers"
    assert len(set(verifier.classes(HOSTILE[-1:] * 2).values)) == 2, "over-long answers are not even their like's"


@pytest.mark.parametrize(
    "text",
    ["0" * 512, "A" * 512, "1_" * 256, "(" * 512, "1," * 256, "3 " + "ab " * 170, r"3\text{" + "a " * 250, "\\" * 512],
)
def test_hostile_notation_takes_no_time(text):
    started = time.perf_counter()
    for pair in ((text, "2516_8"), ("1", text), (text, text + "1"), ("(1,2)", text)):
        contradicted(*pair)
        without_unit(*pair)
    assert time.perf_counter() - started < 0.5
