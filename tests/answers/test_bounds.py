"""Bounds of the verifier: verdicts that do not depend on the load, and what becomes of those that stay out."""

import multiprocessing
import time
from functools import partial
from pathlib import Path

import pytest
from pydantic import ValidationError

from cocal.answers import comparison
from cocal.answers.bounds import too_large
from cocal.answers.equivalence import Verifier
from cocal.config.evaluation import VerifierSettings
from cocal.errors import ContractError
from late_comparisons import waiting

HANGING = r"\int_0^{\infty} e^{-x^{x}} \, dx"


@pytest.fixture
def busy_machine(monkeypatch, tmp_path):
    """Makes the first attempts of comparisons wait; gives the file that counts the attempts."""

    def starved(times: int) -> Path:
        tries = tmp_path / "tries"
        tries.write_text("")
        monkeypatch.setattr("cocal.answers.equivalence.compare_all", partial(waiting, times, tries))
        return tries

    return starved


def test_a_verdict_waits_for_the_processor_as_long_as_it_takes(busy_machine):
    tries = busy_machine(times=2)
    with Verifier(VerifierSettings(timeout=0.5)) as verifier:
        verdicts = verifier.correct([["1/3"], ["1/3"]], [r"\frac{2}{6}", r"\frac{2}{5}"])
    assert verdicts.values.tolist() == [True, False]
    assert verdicts.decided.all()
    assert len(tries.read_text()) == 2  # nothing was tried twice


@pytest.mark.parametrize("times", [2, 3])
def test_a_comparison_that_the_clock_ends_is_tried_once_more(busy_machine, times):
    """In a chunk, alone, and alone once more."""
    tries = busy_machine(times)
    with Verifier(VerifierSettings(timeout=1.0, wall_timeout=1.0)) as verifier:
        verdicts = verifier.correct([["1/3"]], [r"\frac{2}{6}"])
    assert verdicts.values.tolist() == verdicts.decided.tolist() == [times < 3]
    assert len(tries.read_text()) == 3


def test_processor_time_ends_a_comparison_long_before_the_clock():
    started = time.monotonic()
    with Verifier(VerifierSettings(timeout=1.0, wall_timeout=500.0)) as verifier:
        verdicts = verifier.correct([["5"], ["5", "1/2"], ["5"], ["1/2"]], [HANGING, "0.5", None, "0.6"])
    assert verdicts.values.tolist() == [False, True, False, False]
    assert verdicts.decided.tolist() == [False, True, True, True]
    assert time.monotonic() - started < 120


def test_what_stays_undecided():
    """Any gold decides for an answer and all must decide against it; so must the classes of a pool among each other."""
    with Verifier(VerifierSettings(timeout=1.0)) as verifier:
        verdicts = verifier.correct([[HANGING, "1/2"], [HANGING, "1/2"]], ["0.5", "0.6"])
        labels, decided = verifier.classes(
            ["1/2", HANGING, "0.5", None, "2/3", "4/6"], pools=["a", "a", "a", "a", "b", "b"]
        )
    assert verdicts.values.tolist() == verdicts.decided.tolist() == [True, False]
    assert labels.tolist() == [0, 1, 0, -1, 0, 0]
    assert decided.tolist() == [False, False, False, True, True, True]


def test_too_many_undecided_answers_fail_the_job():
    with Verifier(VerifierSettings(timeout=0.5, max_timeouts=0.01)) as verifier:
        verdicts = verifier.correct([["5"]] * 99, [HANGING] + ["5"] * 98)  # too few to tell
        assert verdicts.decided.sum() == 98
        message = (
            r"2 of 101 answers stay undecided, more than verifier\.max_timeouts = 0\.01: .*verifier\.timeout = 0\.5 s"
        )
        with pytest.raises(ContractError, match=message):
            verifier.correct([["5"], ["5"]], [HANGING, "5"])
    with Verifier(VerifierSettings(timeout=0.5, max_timeouts=0.02)) as verifier:
        assert verifier.correct([["5"]] * 100, [HANGING] * 2 + ["5"] * 98).values.sum() == 98


def test_the_clock_may_not_be_the_tighter_bound():
    with pytest.raises(ValidationError, match=r"wall_timeout = 1 is shorter than timeout = 2"):
        VerifierSettings(timeout=2.0, wall_timeout=1.0)


TOO_LARGE = r"""
9^{9^{9}}; 9^{9^{9^{9}}}; 10^{100000}; 10^{100,000}; 10^{-100000}; (9^{9999})^{9999}; \left(2019!\right)^{2019}
e^{e^{e^{e}}}; 2^{\frac{9^9}{2}} + 1; \frac{1}{9^{9^9}}; 1/9^{9^9}; x_{9^{9^9}}; 100000!; 4!!!!; (((3!)!)!)!
\binom{10^{9}}{5 \cdot 10^{8}}; \prod_{n=1}^{10^{8}} (1 + \frac{1}{n^2}); \sum\limits_{n=1}^{100000} \frac{1}{n}
(x+y+z+1)^{30}; (x + 1)^{2004}; 2^(((((9^(9^9))))))
"""
EVALUATED = r"""
10^{-100}; 10^{99999}; 3^{-174762.6667}; 0.5^{1000000}; 2^{2^{10}}; 2^{2^{2^{n}}}; x^{100000000}; 2^{\frac{1}{1000000}}
e^{-x^2}; (2n)! \cdot 2^{n^2}; ((3!)!)!; (1002!)^2 + 2004; \frac{30! \cdot 1989!}{2020!}; \binom{2037171}{2019}
\binom{1000000}{999998}; \binom{n}{k}; \sum_{n=1}^{\infty} \frac{1}{n^2}; \sum_{i=0}^{8} \binom{n}{i}; (x+1)^{300}
(x+y+z)^{10}; (-x)^{2004}; (1+i)^{2004}; ²٣!^; }^{_!\frac\binom\sum_
"""


def test_what_is_too_large_to_evaluate():
    large = [*TOO_LARGE.strip().replace("\n", "; ").split("; "), "9" * 256 + "!", "9" * 400 + "^{9999}", "(" * 10_000]
    assert [text for text in large if not too_large(text)] == []
    small = [*EVALUATED.strip().replace("\n", "; ").split("; "), "5" * 512, ""]
    assert [text for text in small if too_large(text)] == []


def test_numbers_too_large_to_evaluate_reach_no_process_and_equal_their_own_text_alone():
    """A thousand of the worst kinds, and no process is started for them."""
    towers = [f"{base}^{{{base}^{{{exponent}}}}}" for base in range(10, 260) for exponent in (8, 9)]
    worst = [*towers, *(f"{n}!" for n in range(100_000, 100_250)), *(f"{n}!!!!" for n in range(4, 254))]
    assert len(set(worst)) == 1000
    with Verifier(VerifierSettings(max_timeouts=1.0)) as verifier:
        against = verifier.correct([["7"]] * 1000, worst)
        itself = verifier.correct([[f"${text}$"] for text in worst], worst)
        labels, _ = verifier.classes(["10^{10^{9}}", "7", "$10^{10^{9}}$.", "11^{10^{9}}"])
        assert not multiprocessing.active_children()
    assert not against.values.any()
    assert not against.decided.any()
    assert itself.values.all()
    assert itself.decided.all()
    assert labels.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize(
    "infinite", [r"|\infty|.70", r"0!\infty", r"\infty + 1", r"-\infty", r"\frac{0}{0}", r"\frac{1}{0}"]
)
def test_infinity_is_no_number_whatever_a_difference_is_simplified_to(infinite, monkeypatch):
    assert not comparison.compare("1/2", infinite)  # the first of them, math-verify alone calls 1/2
    monkeypatch.setattr("math_verify.verify", lambda *_, **__: True)
    assert comparison.compare("1/2", "0.5")
    assert comparison.compare(r"\infty", infinite)
    assert not comparison.compare("1/2", infinite)
    assert not comparison.compare(infinite, "1/2")


def test_infinity_as_a_limit_or_in_a_denominator_may_give_a_number():
    pairs = [
        (r"\frac{\pi^2}{6}", r"\sum_{n=1}^{\infty} \frac{1}{n^2}"),
        ("0", r"e^{-\infty}"),
        (r"(0, \infty)", r"(0, +\infty)"),
        ("x = 5", "5"),
    ]
    assert [comparison.compare(*pair) for pair in pairs] == [True, True, True, True]
