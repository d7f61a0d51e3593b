"""The processes of the verifier: bounded, killed, replaced; verdicts do not depend on the load."""

import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest
import sympy
from pebble import ProcessPool

import started
from cocal.answers import comparison, equivalence
from cocal.answers.comparison import compare_all, prepare
from cocal.answers.equivalence import Verifier
from cocal.answers.reading import read
from cocal.answers.settings import VerifierSettings
from cocal.answers.spelling import plain_answer
from cocal.errors import ContractError
from late_comparisons import waiting
from verified import HANGING, equivalent

pytestmark = pytest.mark.slow


def test_hanging_comparison_is_killed_and_neighbours_are_judged(caplog):
    neighbours = [(f"{n}/2", str(n / 2)) for n in range(1, 21)]
    pairs = [*neighbours[:7], ("5", HANGING), *neighbours[7:], ("5", HANGING)]
    with caplog.at_level(logging.WARNING), Verifier(VerifierSettings(timeout=2.0)) as verifier:
        verdicts = equivalent(verifier, pairs)
    assert verdicts.tolist() == [True] * 7 + [False] + [True] * 13 + [False]
    (told,) = [text for text in caplog.messages if "undecided" in text]
    assert told.startswith("verifier: 1 of 21 comparisons stay undecided and count as not equivalent: ")
    assert "verifier.timeout = 2 s of processor time" in told


def test_memory_is_bounded():
    """In a process of the verifier's: what is beyond the bound fails, and the process goes on."""
    context = multiprocessing.get_context("forkserver")
    with ProcessPool(1, initializer=prepare, initargs=(200,), context=context) as pool:
        with pytest.raises(MemoryError):
            pool.schedule(bytearray, args=(2**30,)).result()
        assert pool.schedule(compare_all, args=([("1/2", "0.5"), ("1/2", "0.6")], 5.0)).result() == [True, False]


def test_killed_process_is_replaced():
    with Verifier(VerifierSettings(timeout=2.0)) as verifier:
        assert equivalent(verifier, [("1/2", "0.5")]).all()

        def kill():
            for child in multiprocessing.active_children():
                os.kill(child.pid, signal.SIGKILL)

        time.sleep(0.5)
        kill()  # while idle
        assert equivalent(verifier, [("1/3", r"\frac{2}{6}")]).all()
        killer = threading.Timer(0.5, kill)  # while judging
        killer.start()
        assert equivalent(verifier, [("5", HANGING), ("1/2", "0.5")]).tolist() == [False, True]
        killer.join()


class HungPool:
    """A pool that takes tasks and never ends one; stopped, it cancels those that wait."""

    active = True

    def __init__(self):
        self.futures = []

    def schedule(self, *_, **__):
        self.futures.append(Future())
        return self.futures[-1]

    def stop(self):
        for future in self.futures:
            future.cancel()


def test_a_pool_that_hangs_is_replaced(monkeypatch):
    monkeypatch.setattr(equivalence, "_GRACE", 0.1)
    pairs = [(f"{n}/2", str(n / 2)) for n in range(1, 41)]
    with Verifier(VerifierSettings(timeout=0.5, wall_timeout=0.5)) as verifier:
        verifier._processes = hung = HungPool()
        assert equivalent(verifier, [*pairs, ("1/2", "0.6")]).tolist() == [True] * 40 + [False]
        assert len(hung.futures) == 3
        assert verifier._processes is not hung


def test_obvious_comparisons_start_no_process():
    before = set(multiprocessing.active_children())  # a pool that was told to stop may still be ending
    with Verifier(VerifierSettings(max_answer_length=20)) as verifier:
        pairs = [("12", "012"), ("12", "13"), (r"\frac{1}{2}", r" \frac{1}{2}"), ("x", "9" * 21)]
        assert equivalent(verifier, pairs).tolist() == [True, False, True, False]
        assert verifier.correct([["1", "2"], ["3"]], ["2", None]).values.tolist() == [True, False]
        assert verifier.classes([]).values.shape == (0,)
        assert set(multiprocessing.active_children()) <= before


def test_processes_that_cannot_compare_are_an_error(tmp_path):
    """A math-verify that does not work must not pass for wrong answers."""
    (tmp_path / "math_verify.py").write_text("raise ImportError('broken on purpose')\n")
    code = (
        "from cocal.answers.settings import VerifierSettings as S\n"
        "from cocal.errors import ConfigError\n"
        "from cocal.answers.equivalence import Verifier\n"
        "try:\n    Verifier(S()).correct([['1/2']], ['0.5'])\n"
        "except ConfigError as error:\n    print('ConfigError', error)\n"
    )
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path}
    done = started.python(code, environment=environment)
    assert "no checking process can start" in done.stdout
    assert "broken on purpose" in done.stderr


def test_a_script_that_is_imported_anew_by_each_process_is_told_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from cocal.answers.settings import VerifierSettings as S\n"
        "from cocal.answers.equivalence import Verifier\n"
        "Verifier(S()).correct([['1/2']], ['0.5'])\n"
    )
    told = started.run([sys.executable, script]).stderr.splitlines()
    (line,) = [line for line in told if line.startswith("cocal.errors.ConfigError") and str(script) in line]
    assert "put `if __name__ == '__main__':` around" in line
    assert "Raise the bound" not in line


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


def test_what_stays_undecided():
    """Any gold decides for an answer and all must decide against it; so must the classes of a pool among each other.
    Processor time ends a comparison long before the clock."""
    started = time.monotonic()
    with Verifier(VerifierSettings(timeout=0.5, wall_timeout=500.0)) as verifier:
        golds = [[HANGING, "1/2"], [HANGING, "1/2"], ["5"], ["1/2"]]
        verdicts = verifier.correct(golds, ["0.5", "0.6", None, "0.6"])
        labels, decided = verifier.classes(["1/2", HANGING, "0.5", None, "2/3", "4/6"], pools=[*"aaaabb"])
    assert verdicts.values.tolist() == [True, False, False, False]
    assert verdicts.decided.tolist() == [True, False, True, True]
    assert labels.tolist() == [0, 1, 0, -1, 0, 0]
    assert decided.tolist() == [False, False, False, True, True, True]
    assert time.monotonic() - started < 120


def test_too_many_undecided_answers_fail_the_job():
    with Verifier(VerifierSettings(timeout=0.5, max_timeouts=0.01)) as verifier:
        verdicts = verifier.correct([["5"]] * 99, [HANGING] + ["5"] * 98)  # too few to tell
        assert verdicts.decided.sum() == 98
        message = (
            r"2 of 101 answers stay undecided, more than verifier\.max_timeouts = 0\.01: .*verifier\.timeout = 0\.5"
        )
        with pytest.raises(ContractError, match=message):
            verifier.correct([["5"], ["5"]], [HANGING, "5"])
    with Verifier(VerifierSettings(timeout=0.5, max_timeouts=0.02)) as verifier:
        golds = [["5"]] * 99 + [["5", HANGING]]  # a right answer counts for none, though its other gold is given up
        assert verifier.correct(golds, [HANGING] * 2 + ["5"] * 98).values.sum() == 98


TOO_LARGE = r"""
9^{9^{9}}; 9^{9^{9^{9}}}; 10^{100000}; 10^{100,000}; 10^{-100000}; (9^{9999})^{9999}; \left(2019!\right)^{2019}
e^{e^{e^{e}}}; 2^{\frac{9^9}{2}} + 1; \frac{1}{9^{9^9}}; 1/9^{9^9}; 100000!; ((4!)!)!; (((3!)!)!)!
\binom{10^{9}}{5 \cdot 10^{8}}; \prod_{n=1}^{10^{8}} (1 + \frac{1}{n^2}); \sum\limits_{n=1}^{100000} \frac{1}{n}
2^(((((9^(9^9)))))); \binom{1000000000}{100000005}
"""
EVALUATED = r"""
10^{-100}; 10^{99999}; 3^{-174762.6667}; 0.5^{1000000}; 2^{2^{10}}; 2^{2^{2^{n}}}; x^{100000000}; 2^{\frac{1}{1000000}}
e^{-x^2}; (2n)! \cdot 2^{n^2}; ((3!)!)!; (1002!)^2 + 2004; \frac{30! \cdot 1989!}{2020!}; \binom{2037171}{2019}
\binom{1000000}{999998}; \binom{n}{k}; \sum_{n=1}^{\infty} \frac{1}{n^2}; \sum_{i=0}^{8} \binom{n}{i}; (x+1)^{300}
(x+y+z+1)^{30}; (x + 1)^{2004}; (-x)^{2004}; (1+i)^{2004}
"""


def test_what_is_too_large_to_evaluate():
    large = [*TOO_LARGE.strip().replace("\n", "; ").split("; "), "9" * 256 + "!", "9" * 400 + "^{9999}"]
    assert [text for text in large if read(plain_answer(text)) not in (None, sympy.nan)] == []
    small = [*EVALUATED.strip().replace("\n", "; ").split("; "), "5" * 512]
    assert [text for text in small if read(plain_answer(text)) in (None, sympy.nan)] == []


def test_numbers_too_large_to_evaluate_are_no_timeouts_and_equal_their_own_text_alone():
    towers = [f"{base}^{{{base}^{{{exponent}}}}}" for base in range(10, 60) for exponent in (8, 9)]
    worst = [*towers, *(f"{n}!" for n in range(100_000, 100_050)), *(f"(({n}!)!)!" for n in range(4, 54))]
    with Verifier(VerifierSettings(timeout=1.0, max_timeouts=0.0)) as verifier:
        against = verifier.correct([["7"]] * 200, worst)
        itself = verifier.correct([[f"${text}$"] for text in worst], worst)
        labels, decided = verifier.classes(["10^{10^{9}}", "7", "$10^{10^{9}}$.", "11^{10^{9}}"])
    assert not against.values.any()
    assert against.decided.all()
    assert itself.values.all()
    assert itself.decided.all()
    assert labels.tolist() == [0, 1, 0, 2]
    assert decided.all()


INFINITE = [r"|\infty|.70", r"0!\infty", r"\infty + 1", r"-\infty", r"\frac{0}{0}", r"\frac{1}{0}"]


@pytest.mark.parametrize("infinite", INFINITE)
def test_infinity_is_no_number_whatever_a_difference_is_simplified_to(infinite):
    pairs = [(r"\frac{\pi^2}{6}", r"\sum_{n=1}^{\infty} \frac{1}{n^2}"), ("0", r"e^{-\infty}"), ("x = 5", "5")]
    assert all(comparison.compare(*pair) for pair in pairs), "infinity as a limit or a denominator may give a number"
    assert comparison.compare(r"\infty", r"+\infty")
    assert not comparison.compare("1/2", infinite)  # the first of them, math-verify alone calls 1/2
    assert not comparison.compare(infinite, "1/2")
