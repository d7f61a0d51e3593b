"""`make gpu`, at tiny sizes on this machine."""

import shutil
import sys

import pytest

import started


@pytest.mark.slow
def test_the_report_says_of_each_step_how_it_ended(repository, tmp_path):
    words = ["--small", "--only", "device", "tests", "profile", "--output", tmp_path / "gpu.md"]
    done = started.run([sys.executable, repository / "benchmarks/gpu.py", *words])
    assert done.returncode == 0, done.stdout + done.stderr
    report = (tmp_path / "gpu.md").read_text()
    assert report.count("\npassed, ") == 2
    assert "product of 256 x 256 in bfloat16" in report
    assert "2 rows of 32 tokens" in report
    assert "Left out: it needs a GPU." in report


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="a GPU is there")
def test_a_machine_without_a_gpu_is_told_so(repository, tmp_path):
    done = started.run([sys.executable, repository / "benchmarks/gpu.py", "--output", tmp_path / "gpu.md"])
    assert done.returncode == 2
    assert "there is no GPU to try: run `make gpu` on a machine with one" in done.stderr
    assert not (tmp_path / "gpu.md").exists()
