"""A job that was given GPUs and cannot use them ends at once, and says why."""

import os
import subprocess
import sys

import pytest
import torch

import started
from cocal.errors import ConfigError
from cocal.runtime import gpus, lock
from cocal.runtime.machine import fix_threads

LISTED = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES")


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch):
    for name in (*LISTED, gpus.PROCESSOR_ONLY):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(gpus, "listed_gpus", lambda: "")


@pytest.mark.parametrize("name", LISTED)
def test_gpus_that_were_granted_must_be_seen(monkeypatch, name):
    def initialised():
        raise RuntimeError("The NVIDIA driver on your system is too old (found version 12020).\nMore.")

    monkeypatch.setattr(torch.cuda, "init", initialised)
    monkeypatch.setenv(name, "3")
    said = rf"\({name}=3\), but PyTorch sees none: The NVIDIA driver .* \(found version 12020\)\. To compute on the pro"
    with pytest.raises(ConfigError, match=said):
        fix_threads()
    monkeypatch.delenv(name)
    fix_threads()
    for nothing in ("", "-1", "NoDevFiles"):  # as users and SLURM hide all GPUs
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", nothing)
        fix_threads()
    monkeypatch.setenv("SLURM_JOB_GPUS", "0")
    monkeypatch.setenv("COCAL_PROCESSOR_ONLY", "1")  # a rehearsal without real GPUs
    fix_threads()
    monkeypatch.delenv("COCAL_PROCESSOR_ONLY")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    fix_threads()


@pytest.fixture
def two_gpus(monkeypatch, tmp_path):
    """A machine with two GPUs, on which no job runs."""
    for name in ("SLURM_JOB_ID", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # so that the test's own value is put back
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(gpus, "listed_gpus", lambda: "A, 24564, 580.65\nB, 24564, 580.65\n")
    monkeypatch.setattr(gpus.tempfile, "gettempdir", lambda: str(tmp_path))
    yield monkeypatch
    for name in (*"0123", "7-0"):
        lock.release(tmp_path / f"cocal-gpu-{os.getuid()}-{name}")


def _taken(count: int) -> str | None:
    gpus.take_gpus(count)
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def test_a_job_sees_the_gpus_that_it_takes(two_gpus):
    """TRL refuses a process that sees two."""
    assert _taken(2) is None, "it takes all there are"
    two_gpus.setenv("LOCAL_RANK", "1")
    assert _taken(1) is None, "a launcher's process has the GPU of its rank"
    two_gpus.delenv("LOCAL_RANK")
    two_gpus.setattr(torch.cuda, "is_available", lambda: True)
    fix_threads()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
    two_gpus.setenv("CUDA_VISIBLE_DEVICES", "3,1,2")
    assert _taken(2) == "3,1"
    two_gpus.setenv("CUDA_VISIBLE_DEVICES", "")
    assert _taken(1) == "", "hidden ones stay hidden"


def test_jobs_side_by_side_take_different_gpus(two_gpus, tmp_path, caplog):
    text = f"""
import time
from pathlib import Path
from cocal.runtime import lock
lock.hold(Path({str(tmp_path)!r}) / "cocal-gpu-{os.getuid()}-0")
print("held", flush=True)
time.sleep(60)
"""
    other = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == b"held\n"
        assert _taken(1) == "1"
        two_gpus.setenv("CUDA_VISIBLE_DEVICES", "0,0")
        assert _taken(1) == "0", "none is free"
        assert "other jobs have taken the GPUs 0, 0" in caplog.text
        two_gpus.setenv("SLURM_JOB_ID", "7")
        two_gpus.setenv("CUDA_VISIBLE_DEVICES", "0,1")
        assert _taken(1) == "0", "SLURM numbers every job's GPUs from 0"
        assert tmp_path / f".cocal-gpu-{os.getuid()}-7-0.lock" in lock._held, "for other jobs in the same allocation"
    finally:
        other.kill()


def test_importing_a_training_asks_for_no_gpu():
    """CUDA reads CUDA_VISIBLE_DEVICES once, when PyTorch is first asked for a GPU; `take_gpus` comes later."""
    text = """
import torch
def asked(*_):
    raise SystemExit("asked")
torch.cuda.is_available = torch.cuda.device_count = asked
import cocal_study.stages.training
"""
    assert started.python(text).returncode == 0
