"""Snakemake's command line in a fork of a process of `warm_jobs`, which has imported Snakemake and what plans compute.

A dry-run takes a second so, instead of several. `tests/smoke_study.py` runs one study as a user does, with a Snakemake
that starts from nothing.
"""

import os
import subprocess
from pathlib import Path

import warm_jobs

ROOT = Path(__file__).resolve().parents[1]


def run(words, cwd=ROOT, environment=None):
    """The finished process, as `subprocess.run` gives it with captured text.

    Args:
        words: the command without its name.
        cwd: folder in which it runs.
        environment: all of its variables; by default those of this process. With another PYTHONPATH, what is loaded of
            the package would not hold, so that a process forks which has loaded nothing of it.
    """
    environment = dict(os.environ) if environment is None else environment
    server = "plans" if environment.get("PYTHONPATH") == os.environ.get("PYTHONPATH") else "libraries"
    command = [*warm_jobs.command(server), "snakemake", *map(str, words)]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd, env=environment)
