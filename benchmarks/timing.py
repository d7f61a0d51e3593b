"""What the benchmarks share: rows of their tables, times, and processes of their own."""

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context


def row(
    benchmark: str,
    case: str,
    seconds: float,
    peer: str | None = None,
    peer_seconds: float | None = None,
    note: str = "",
    ratio: float | None = None,
) -> dict:
    """A row as `benchmarks/run.py` describes it; the ratio is that of the times unless it is given."""
    if ratio is None and peer_seconds is not None:
        ratio = peer_seconds / seconds
    return {
        "benchmark": benchmark,
        "case": case,
        "seconds": seconds,
        "peer": peer,
        "peer_seconds": peer_seconds,
        "ratio": ratio,
        "note": note,
    }


def timed(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Seconds that a function takes."""
    began = clock()
    work()
    return clock() - began


def best(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    repeats: int,
    clock: Callable[[], float] = time.process_time,
) -> tuple[float, float]:
    """Best times of two functions that run in turns."""
    times = [(timed(ours, clock), timed(theirs, clock)) for _ in range(repeats)]
    return min(mine for mine, _ in times), min(other for _, other in times)


def gpu_clock() -> float:
    """Time in seconds after all queued work of the GPU is done, if there is one."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def alone(function: Callable, *arguments):
    """The function's result, from a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()
