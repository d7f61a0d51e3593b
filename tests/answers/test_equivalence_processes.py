"""The processes of the verifier: bounded, killed, replaced, and refused if they cannot compare."""

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future

import pytest
from pebble import ProcessPool

from cocal.answers import equivalence
from cocal.answers.comparison import compare_all, prepare
from cocal.answers.equivalence import Verifier
from cocal.config.evaluation import VerifierSettings

HANGING = r"\int_0^{\infty} e^{-x^{x}} \, dx"


@pytest.fixture
def verifier():
    """A verifier with one process and a short time-out."""
    with Verifier(VerifierSettings(timeout=2.0)) as verifier:
        yield verifier


def test_hanging_comparison_is_killed_and_neighbours_are_judged(verifier, caplog):
    neighbours = [(f"{n}/2", str(n / 2)) for n in range(1, 21)]
    pairs = [*neighbours[:7], ("5", HANGING), *neighbours[7:], ("5", HANGING)]
    with caplog.at_level(logging.WARNING):
        verdicts = verifier.equivalent(pairs)
    assert verdicts.tolist() == [True] * 7 + [False] + [True] * 13 + [False]
    (told,) = [record.getMessage() for record in caplog.records if "undecided" in record.getMessage()]
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
    with Verifier(VerifierSettings(timeout=4.0)) as verifier:
        assert verifier.equivalent([("1/2", "0.5")]).all()

        def kill():
            for child in multiprocessing.active_children():
                os.kill(child.pid, signal.SIGKILL)

        time.sleep(0.5)
        kill()  # while idle
        assert verifier.equivalent([("1/3", r"\frac{2}{6}")]).all()
        killer = threading.Timer(0.5, kill)  # while judging
        killer.start()
        assert verifier.equivalent([("5", HANGING), ("1/2", "0.5")]).tolist() == [False, True]
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
        assert verifier.equivalent([*pairs, ("1/2", "0.6")]).tolist() == [True] * 40 + [False]
        assert len(hung.futures) == 3
        assert verifier._processes is not hung


def test_obvious_comparisons_start_no_process():
    with Verifier(VerifierSettings(max_answer_length=20)) as verifier:
        pairs = [("12", "012"), ("12", "13"), (r"\frac{1}{2}", r" \frac{1}{2}"), ("x", "9" * 21)]
        assert verifier.equivalent(pairs).tolist() == [True, False, True, False]
        assert verifier.correct([["1", "2"], ["3"]], ["2", None]).values.tolist() == [True, False]
        assert verifier.classes([]).values.shape == (0,)
        assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("broken", "shown"),
    [
        ("raise ImportError('broken on purpose')\n", "broken on purpose"),
        ("def parse(*_, **__): return []\ndef verify(*_, **__): return False\n", "cannot compare 1/2 with 0.5"),
    ],
)
def test_processes_that_cannot_compare_are_an_error(tmp_path, broken, shown):
    """A math-verify that does not work must not pass for wrong answers."""
    (tmp_path / "math_verify.py").write_text(broken)
    code = (
        "from cocal.config.evaluation import VerifierSettings as S\n"
        "from cocal.errors import ConfigError\n"
        "from cocal.answers.equivalence import Verifier\n"
        "try:\n    Verifier(S()).equivalent([('1/2', '0.5')])\n"
        "except ConfigError as error:\n    print('ConfigError', error)\n"
    )
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert "no checking process can start" in done.stdout
    assert shown in done.stderr
