"""`make gpu`, at tiny sizes on this machine."""

import shutil
import subprocess
import sys


def _run(repository, *words, **options):
    command = [sys.executable, str(repository / "benchmarks/gpu.py"), *map(str, words)]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=repository, **options)


def test_the_report_says_of_each_step_how_it_ended(repository, tmp_path):
    done = _run(repository, "--small", "--only", "device", "tests", "profile", "--output", tmp_path / "gpu.md")
    assert done.returncode == 0, done.stdout + done.stderr
    report = (tmp_path / "gpu.md").read_text()
    assert report.count("\npassed, ") == 2
    assert "product of 256 x 256 in bfloat16" in report
    assert "2 rows of 32 tokens" in report
    assert "Left out: it needs a GPU." in report


def test_a_machine_without_a_gpu_is_told_so(repository, tmp_path):
    if shutil.which("nvidia-smi"):
        return
    done = _run(repository, "--output", tmp_path / "gpu.md")
    assert done.returncode == 2
    assert "there is no GPU to try: run `make gpu` on a machine with one" in done.stderr
    assert not (tmp_path / "gpu.md").exists()
