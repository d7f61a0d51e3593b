"""Bounds of the verifier: verdicts that do not depend on the load, and what becomes of those that stay out."""

import time
from functools import partial
from pathlib import Path

import pytest
from pydantic import ValidationError

from cocal.answers import comparison
from cocal.answers.equivalence import Verifier
from cocal.config.evaluation import VerifierSettings
from cocal.errors import ContractError

HANGING = "9^{9^{9^{9}}}"


def waiting(times: int, tries: Path, pairs: list, *bounds: float) -> list[bool]:
    """`compare_all` in a process that gets the processor late: at the first `times` attempts it waits for 3 s.

    Args:
        tries: file that holds a character for each attempt.
    """
    real = comparison.compare

    def late(gold: str, answer: str) -> bool:
        tries.write_text(tries.read_text() + "x")
        if len(tries.read_text()) <= times:
            time.sleep(3.0)
        return real(gold, answer)

    comparison.compare = late
    try:
        return comparison.compare_all(pairs, *bounds)
    finally:
        comparison.compare = real


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


def test_any_gold_decides_for_an_answer_and_all_must_decide_against_it():
    with Verifier(VerifierSettings(timeout=1.0)) as verifier:
        verdicts = verifier.correct([[HANGING, "1/2"], [HANGING, "1/2"]], ["0.5", "0.6"])
    assert verdicts.values.tolist() == [True, False]
    assert verdicts.decided.tolist() == [True, False]


def test_classes_without_a_verdict_between_them_are_undecided():
    with Verifier(VerifierSettings(timeout=1.0)) as verifier:
        labels, decided = verifier.classes(
            ["1/2", HANGING, "0.5", None, "2/3", "4/6"], pools=["a", "a", "a", "a", "b", "b"]
        )
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
