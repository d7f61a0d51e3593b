"""`make gpu`, at tiny sizes on this machine."""

import importlib
import re
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import started


@pytest.mark.long
def test_the_report_keeps_what_each_step_said_whichever_command_ran_it(repository, tmp_path):
    """Steps by one command each, the last first, and one of them twice; the report has them in their order."""
    for names in (["profile"], ["rollouts", "tests"], ["device"], ["profile"], ["grpo"]):
        words = ["--small", "--only", *names, "--output", tmp_path / "gpu.md"]
        done = started.run([sys.executable, repository / "benchmarks/gpu.py", *words])
        assert done.returncode == 0, done.stdout + done.stderr
    report = (tmp_path / "gpu.md").read_text()
    said = (
        "product of 256 x 256 in bfloat16",
        "mean and largest difference of vLLM's log-probabilities in step 2: no vLLM",
        "Left out: it needs a GPU.",
        "2 rows of 32 tok",
    )
    assert sorted(said, key=report.index) == list(said)
    assert report.count("\npassed, ") == 4
    assert report.count("\n## ") == 5


def test_a_step_that_takes_too_long_is_stopped_with_all_that_it_has_started(repository, monkeypatch, tmp_path):
    """What it has said is kept."""
    monkeypatch.syspath_prepend(repository / "benchmarks")
    gpu = importlib.import_module("gpu")
    monkeypatch.setattr(gpu, "ROOT", tmp_path)
    words = "import os, time; os.fork(); print(os.getpid(), flush=True); time.sleep(600)"
    monkeypatch.setitem(gpu.STEPS, "device", gpu.Step("Sleep", ("-c", words)))
    part = gpu.run("device", small=False, limit=5)
    assert "STOPPED after 5 s" in part
    started_by_it = re.findall(r"^(\d+)$", part, flags=re.MULTILINE)
    assert len(started_by_it) == 2
    waited_until = time.monotonic() + 20  # a killed process takes a moment to end
    while any(map(_runs, started_by_it)) and time.monotonic() < waited_until:
        time.sleep(0.1)
    assert not any(map(_runs, started_by_it))


def _runs(number: str) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False
