"""Lines of long jobs: what is done, how long the rest takes, and whose line it is."""

import json
import logging
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import started
from cocal.runtime.progress import INTERVAL, Progress, in_words, job_name, through, warnings_again
from micro import MICRO_SETS


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """A clock that a test moves."""
    found = SimpleNamespace(now=100.0)
    monkeypatch.setattr("cocal.runtime.progress.time", SimpleNamespace(monotonic=lambda: found.now))
    return found


def test_durations_in_words():
    words = {-1: "0 s", 8.4: "8 s", 59.6: "1 min", 145: "2 min 25 s", 600: "10 min", 1020: "17 min", 3599: "1 h"}
    words |= {12_000: "3 h 20 min", 190_800: "2 d 5 h"}
    assert {seconds: in_words(seconds) for seconds in words} == words


def test_a_line_now_and_then_with_the_time_left(caplog, clock):
    progress = Progress("step", 60, done=20)
    with caplog.at_level(logging.INFO):
        for step in range(21, 61):
            clock.now += 3
            progress.add(detail=f"accuracy 0.{step}")
    lines = caplog.messages
    assert lines[0] == "step 24/60, accuracy 0.24, 1 min 48 s left", "what was done before costs nothing"
    assert lines[-1] == "step 60/60, accuracy 0.60"
    assert len(lines) == 10, f"every {INTERVAL:g} s, which is every fourth step, and the last"


def test_batches_are_passed_on_and_their_items_counted(caplog, clock):
    seen = []
    with caplog.at_level(logging.INFO):
        for batch in through([[1, 2, 3], [4], [5, 6]], "response"):
            seen += batch
            clock.now += 12
    assert seen == [1, 2, 3, 4, 5, 6]
    assert caplog.messages == ["response 3/6, 12 s left", "response 4/6, 12 s left"]


@pytest.mark.parametrize(
    ("command", "place", "name"),
    [
        ("train", "results/runs/train/tiny/grpo", "train tiny grpo"),
        ("responses", "results/runs/responses/tiny/base-0-verbal-mathematics", "responses tiny base-0-verbal"),
        ("metrics", "/home/me/cocal/results/metrics/tiny.nc", "metrics tiny"),
        ("questions", "results/questions", "questions"),
        ("import", "/data/of/mine/rollouts", "import rollouts"),
        ("plan", None, "plan"),
    ],
)
def test_a_command_is_named_by_what_it_works_on(command, place, name):
    assert job_name(command, place and Path(place)) == name


def test_warnings_stand_again_at_the_end(caplog, capsys):
    with warnings_again():
        logging.warning("%d weights differ", 3)
        logging.info("read")
        logging.warning("3 weights differ")
    with warnings_again():
        logging.info("read")
    assert capsys.readouterr().err == "Warnings:\n  3 weights differ\n"


def test_every_log_line_of_a_command_names_its_job(tmp_path):
    words = ["questions", "--settings", json.dumps(MICRO_SETS), "--output", "results/questions"]
    lines = started.said([sys.executable, "-m", "cocal", *words], cwd=tmp_path).splitlines()
    assert len(lines) == 2
    pattern = r"\d\d:\d\d:\d\d  questions +results/questions/micro-(train|eval).parquet: \d+ questions"
    assert all(re.fullmatch(pattern, line) for line in lines)
