"""Processes that tests start as users start them: Snakemake, commands, trainings of several processes."""

import importlib.util
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
slow_left_out = False
"""True if no test shall start Snakemake, which takes seconds each time (`tests/conftest.py`)."""


def script(place: str) -> ModuleType:
    """The module of a Python file of the checkout that belongs to no package, and may import those beside it."""
    if (folder := str((ROOT / place).parent)) not in sys.path:
        sys.path.append(folder)
    found = importlib.util.spec_from_file_location(Path(place).stem, ROOT / place)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def python(code: str, *words: object, cwd: Path = ROOT, environment: Mapping[str, str] | None = None):
    """The finished process of some lines of Python (`run`)."""
    return run([sys.executable, "-c", code, *words], cwd, environment)


def run(words: Sequence[object], cwd: Path = ROOT, environment: Mapping[str, str] | None = None):
    """The finished process of a command, with captured text; its variables are those of this process by default."""
    return subprocess.run(
        list(map(str, words)), check=False, capture_output=True, text=True, cwd=cwd, env=environment and {**environment}
    )


def snakemake(words: Sequence[object], cwd: Path = ROOT, environment: Mapping[str, str] | None = None):
    """The finished process of `snakemake` with these words (`run`); a test that asks for it is slow."""
    if slow_left_out:
        pytest.skip("starts Snakemake, and slow tests are left out")
    return run(["snakemake", *words], cwd, environment)


def said(words: Sequence[object], environment: Mapping[str, str] | None = None, cwd: Path = ROOT) -> str:
    """The log of a command that succeeds."""
    done = run(words, cwd, environment)
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stderr


def kill_when(found: Path, words: Sequence[object], environment: Mapping[str, str] | None = None) -> None:
    """Kill a command, and all processes that it has started, as soon as it has written a file.

    They are killed one by one: a launcher gives each process of a training a session of its own.
    """
    process = psutil.Popen(
        list(map(str, words)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment and {**environment},
    )
    waited = time.monotonic()
    try:
        while not found.exists():
            assert process.poll() is None
            assert time.monotonic() - waited < 300
            time.sleep(0.02)
    finally:
        started = [process, *process.children(recursive=True)]
        for each in started:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(started)
