"""Equivalence of mathematical answers: what is equal, and what must not be."""

import time

import numpy as np
import pytest

from cocal.answers.equivalence import Verifier
from cocal.answers.notation import aligned, decided
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
15            | 15 sides; fifteen
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
n\equiv 2 \pmod 7 | n \equiv 2 \pmod{7}; n\equiv 2 (mod 7)
17 \text{ dogs}, 4 \text{ cats} | 17, 4; 17 dogs and 4 cats
3n+2m         | 2m+3n
8 \text{ m}   | 8; 8 meters; 8m
7km           | 7
6:9:12        | 2:3:4
1:\sqrt{2}:3  | 2:2\sqrt{2}:6
2R-r          | -r+2R
\frac{1}{19!} | \frac{1}{121645100408832000}
\frac{7}{9}   | 0.7777778; 0.777777777777
1.2 \times 10^{-9} | 1.2e-9; 0.0000000012; 12e-10
730000        | 7.3e5; 7.3 x 10^5; 7.3 \cdot 10^5
3+2i          | 3+2\mathrm{i}; 2i+3; 3+2j; 3+\sqrt{-4}; 3+2\imath
\mathrm{e}^{3} | e^3; \text{e}^3; exp(3)
\sin x        | \text{sin} x; \mathrm{sin}(x); sin x
3\sqrt{5}     | 3√5; 3\sqrt(5); 3sqrt(5)
45^\circ      | 45°; 45
x^{12}        | x¹²
(-\infty,2]\cup(5,\infty) | (−∞, 2] ∪ (5, ∞); x \le 2 \text{ or } x > 5; x≤2 or x>5
\{x \mid -4<x<9\} | (-4,9); \{x: -4<x<9\}; \{ x \| -4 < x < 9 \}; -4 < x < 9
\{x\in\mathbb{N}|x<4\} | \{0,1,2,3\}
\text{July 14} | July 14; 14 July; \text{July } 14
\text{no solution} | No solutions; There is no solution
\mathbb{R}    | ℝ; all real numbers; \text{All real numbers}; (-\infty,\infty)
\frac{\pi}{7} | \frac\pi7; \frac \pi 7; π/7
73            | n: 73; **73**; __73__; `73`; \color{blue}{73}; \underline{73}; 73\; 73 \square; \text{73}; <73>
73            | seventy-three
12            | 12^{\mathrm{th}}; 12th; twelve; Answer: 12; The answer is 12; 12 (approx); US$12; 12\\
4,000,000     | $4 million; 4 million
9:42 \text{ p.m.} | 9:42
\text{(C) } 31 | 31
D             | D. 7; (D); \text{D. } 7
x=k\pi, k\in\mathbb{Z} | x=k\pi
f(n)=3n+2     | f(x)=3x+2; 3n+2
x^2+3y^2=6    | 2x^2+6y^2=12
(2)(5)        | (5)(2); 2,5; ②⑤
\begin{cases}x=3\\y=8\end{cases} | x=3, y=8; (3,8)
\frac{2 \pm \sqrt{7}}{3} | \frac{2+\sqrt7}{3}, \frac{2-\sqrt7}{3}
0.1\overline{6} | \frac{1}{6}
c>b>a         | a<b<c
\max(p,q)     | \max(q,p)
xy            | yx
efg           | gfe
red           | Red; \text{red}
\sqrt{1/n}    | \frac{1}{\sqrt{n}}
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
15            | 16 sides; -15 sides
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
n\equiv 2 \pmod 7 | 7; 2; n\equiv 3 \pmod 7
\{x \mid -4<x<9\} | 9; (-4,8); [-4,9)
17 \text{ dogs}, 4 \text{ cats} | 4; 17; 17, 5; 17 \text{ dogs}, 4 \text{ rats}
2 \text{ h } 30 \text{ min} | 2; 30; 2 \text{ h } 40 \text{ min}
1, 4, \ldots, n | 4; 1, 3, \ldots, n
5t            | 5
7ab           | 7
3mg           | 3
2\pi r h      | 2\pi r
y=4s          | y=4
9 hours       | 9 minutes
9 \text{ cm}^2 | 9 \text{ cm}^3; 9 \text{ m}^2
€77           | £77
\frac{R}{r}   | 1
R^2-r^2       | 0
\Sigma        | \sigma
(B,b)         | (b,b)
\frac{1}{30!} | \frac{1}{31!}; 0
1-\frac{1}{3^{90}} | 1; 1-\frac{1}{3^{91}}
6.63\times10^{-34} | 1.6\times10^{-19}; 0
e^{-80}       | e^{-81}; 0
5^{40}        | 5^{40}+1
2^{64}        | 1.8446744073709552e19
\sqrt{17}     | 4.1231
\frac{7}{9}   | 0.7778
10.4166666667 | 10.4166666660
f(1)=0        | f(1)=3
\lfloor \frac{n-1}{2} \rfloor | \lfloor \frac{n-1}{5} \rfloor
\frac{1}{3} < \frac{3}{7} | \frac{1}{3} < \frac{3}{8}
7 \cdot 11 = 77 | 7 \cdot 11 = 78
\gcd(a,b)=1   | \gcd(a,b)=2
x^2+1=0       | x^2+4=0
x^2=9         | 3
3:4:5         | 3:5:4; 60; \frac{3}{4}
6:5:4         | 6
BAC           | ABC
HTH           | HHT
cat           | act
\angle ABC    | \angle ACB
\triangle PQR | \triangle PRS
(1)(4)        | (2)(3); 4; 5
1,2,\ldots,10 | 1,2,\ldots,20
2\sqrt{3}     | 3; 2√5
x<1 \text{ or } x>3 | x>3; x<1 \text{ or } x>4
f(x)=cx       | f(x)=kx
f(x)=2x       | f(x)=3x
\pm 6         | 6; -6
5 \text{ is wrong} | 5
5             | d: 5; (d) 5; 5 or 6; not 5; 5 \to 6; 5...6; 5 \quad 6; 5 6; 5,00; \text{about } 5
5             | 5 & 6; 5?6; 5 if n is odd
5000          | 5.000
12:00         | 1:00
9:42 \text{ p.m.} | 9:24 \text{ p.m.}; \frac{9}{42}
f'            | f
I             | i
e             | E
C             | c; \text{(C) } 5
0             | __import__('os').getcwd()
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
        aligned(*pair)
        decided(*pair)
    assert time.perf_counter() - started < 0.5
