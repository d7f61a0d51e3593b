"""A job that was given GPUs and cannot use them ends at once, and says why."""

import pytest
import torch

from cocal.errors import ConfigError
from cocal.runtime import gpus
from cocal.runtime.machine import fix_threads

LISTED = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES")


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch, tmp_path):
    for name in (*LISTED, gpus.PROCESSOR_ONLY):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(gpus, "_DRIVER", tmp_path / "version")


@pytest.mark.parametrize("name", LISTED)
def test_an_old_driver_is_named_with_the_one_that_is_needed(monkeypatch, tmp_path, name):
    monkeypatch.setenv(name, "0,1")
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version: 12\n"
    (tmp_path / "version").write_text(text)
    expected = rf"\({name}=0,1\).* CUDA 13\.0 needs NVIDIA's driver 580 or newer, and this machine has 535\.183\.01:"
    with pytest.raises(ConfigError, match=expected):
        fix_threads()


def test_a_node_without_a_driver_and_a_build_for_processors(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_GPUS", "3")
    with pytest.raises(ConfigError, match=r"driver 580 or newer, and this node has no NVIDIA driver loaded"):
        fix_threads()
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(ConfigError, match=r"is a build for processors: install the build for CUDA"):
        fix_threads()


def test_nothing_is_asked_where_no_gpu_was_granted(monkeypatch):
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
