"""Snakemake's local executor, whose jobs of `cocal` share processes that have loaded their libraries.

`snakemake --executor cocal` selects it, as `make reproduce` does. A job of `cocal` that needs no environment of its own
is given to a worker (cocal_study.commands.worker), which runs one job at a time; others are run as Snakemake runs them.
"""

import os
import subprocess
import sys
from concurrent.futures import Future
from contextlib import nullcontext
from multiprocessing import Pipe
from queue import Empty, LifoQueue
from typing import Any

from snakemake.benchmark import BenchmarkRecord, benchmarked, write_benchmark_records
from snakemake.executors import local
from snakemake.executors.local import common_settings as common_settings
from snakemake_interface_common.exceptions import WorkflowError

from cocal_study.commands.worker import Order

THREADS: tuple[str, ...] = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Variables that Snakemake sets to the threads of a job."""


class Worker:
    """A process that runs one job at a time."""

    def __init__(self, folder_for_scratch: str):
        self._answers, theirs = Pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", Order.__module__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, **dict.fromkeys(THREADS, "1"), "TMPDIR": folder_for_scratch},
        )
        theirs.close()

    def run(self, order: Order, record: BenchmarkRecord | None) -> int:
        """Run a job to its end, and return its exit status, or that of the worker if this was killed."""
        try:
            self._answers.send(order)
            process = self._answers.recv()
            with benchmarked(process, record) if record else nullcontext():
                return self._answers.recv()
        except (EOFError, ConnectionError):
            return self._process.wait() or 1

    @property
    def ended(self) -> bool:
        """True if the process was killed."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End the process."""
        self._answers.close()
        self._process.wait()


class Executor(local.Executor):
    """Gives jobs of `cocal` to workers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._idle: LifoQueue[Worker] = LifoQueue()

    def run_single_job(self, job: Any) -> Future:
        """Start a job."""
        environment = self.workflow.deployment_settings.deployment_method
        match job.params.get("start"):
            case ["cocal"] | ["env", *_, "cocal"] if not environment:
                self.workflow.async_run(job.prepare())
                return self.pool.submit(self.cached_or_run, job, self._in_worker, job)
        return super().run_single_job(job)

    def _in_worker(self, job: Any) -> None:
        """Run a job to its end. Raises WorkflowError if it fails, with Snakemake's own message for a command."""
        try:
            worker = self._idle.get_nowait()
        except Empty:
            worker = Worker(job.resources.tmpdir)
        record = BenchmarkRecord() if job.benchmark else None
        settings = dict.fromkeys(THREADS, str(job.threads))
        settings |= dict(word.split("=", 1) for word in job.params.start[1:-1])
        order = Order([*job.params.words], settings, str(job.log[0]), shown=job.params.to != "&>")
        status = worker.run(order, record)
        if not worker.ended:
            self._idle.put(worker)
        if status:
            raise WorkflowError(str(subprocess.CalledProcessError(status, job.shellcmd)))
        if record:
            write_benchmark_records([record], str(job.benchmark), False)

    def shutdown(self) -> None:
        """Wait for the jobs, and end the workers."""
        super().shutdown()
        while not self._idle.empty():
            self._idle.get().close()

    cancel = shutdown
