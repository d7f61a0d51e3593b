"""The rehearsal study in a folder of its own, on a running SLURM; and what SLURM says of its jobs."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

SITE = {
    "COCAL_SLURM_GPU_PARTITION": "b200",  # the other defaults fit the cluster of start-slurm.sh
    "COCAL_SLURM_JOBS": "4",  # its nodes are a machine of two cores
    "COCAL_SLURM_POLL": "8",
    "COCAL_SLURM_LATENCY": "10",
    "COCAL_PROCESSOR_ONLY": "1",  # its GPUs are stand-ins
    "OMP_NUM_THREADS": "1",
}


class Job(NamedTuple):
    """A job in SLURM's memory, ended or not."""

    id: str
    state: str
    what: str
    """Rule and wildcards, e.g. rule_train_grpo_wildcards_stand-in-14b."""


class Study:
    """The rehearsal study in a folder of its own."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.environment = {**os.environ, **SITE}
        self.environment["PYTHONPATH"] = str(folder / "src")
        self.environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def snakemake(self, *words: str, site: dict[str, str] | None = None, minutes: float = 5):
        """`snakemake --profile slurm` to its end; its output as one text."""
        return self.typed(*self._command(*words), site=site, minutes=minutes)

    def typed(self, *words: str, site: dict[str, str] | None = None, minutes: float = 5):
        """A command typed in the folder; what it prints as one text."""
        return subprocess.run(
            words, check=False, cwd=self.folder, env=self.environment | (site or {}), timeout=60 * minutes, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    @contextmanager
    def driver(self, name: str, *words: str):
        """Snakemake in the background, with its output in driver-{name}.txt; it is drained on leaving."""
        with (self.folder / f"driver-{name}.txt").open("w") as output:
            process = subprocess.Popen(
                self._command(*words), cwd=self.folder, env=self.environment, stdout=output, stderr=subprocess.STDOUT
            )
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
                    process.wait(120)

    def said(self, name: str) -> str:
        """What a driver has printed so far."""
        return (self.folder / f"driver-{name}.txt").read_text()

    def _command(self, *words: str) -> list[str]:
        targets = ["--", *(w for w in words if w.startswith("results/"))]
        flags = [w for w in words if not w.startswith("results/")]
        study = ["--configfile", "config/rehearsal.yaml", "--directory", "."]
        return ["snakemake", "--profile", "slurm", *study, *flags, *targets]

    def jobs(self, what: str = "") -> list[Job]:
        """Jobs of this folder, those that have ended too; by the beginning of their comment."""
        lines = _slurm("squeue", "--noheader", "--states=all", "--sort=i", "--format=%i|%T|%k|%Z").splitlines()
        rows = [line.split("|") for line in lines]
        mine = [Job(*words) for *words, folder in rows if Path(folder) == self.folder]
        return [job for job in mine if job.what.startswith(what)]

    def wait_for_job(self, what: str, state: str, besides: set[str] = frozenset(), minutes: float = 4) -> Job:
        """The first job of a rule in a state, other than those named."""

        def found():
            return next((j for j in self.jobs(what) if j.state == state and j.id not in besides), None)

        return wait(found, f"{what}: no job {state}", minutes)


def wait(condition: Callable, otherwise: str, minutes: float = 4):
    """What `condition` returns as soon as it is true."""
    end = time.monotonic() + 60 * minutes
    while not (found := condition()):
        assert time.monotonic() < end, f"{otherwise} within {minutes} minutes"
        time.sleep(0.3)
    return found


def request_of(job: Job) -> dict[str, str]:
    """What `scontrol show job` says."""
    return dict(re.findall(r"(\S+?)=(\S*)", _slurm("scontrol", "show", "job", job.id)))


def stop(job: Job) -> None:
    """Stop the processes of a running job, as if they hung."""
    _slurm("scancel", "--signal=STOP", job.id)
    wait(lambda: "STOPPED" in _slurm("squeue", "--noheader", "--format=%T", f"--jobs={job.id}"), "not stopped")


def _slurm(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout
