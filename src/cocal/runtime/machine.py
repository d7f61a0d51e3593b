"""The process of a job: its number of threads and its devices."""

import os
from typing import TYPE_CHECKING

from cocal.runtime.gpus import check_gpus, take_gpus
from cocal.runtime.numerics import active

if TYPE_CHECKING:
    import torch


def fix_threads(gpus: int = 1, alone: bool = False) -> None:
    """Use as many compute threads as OMP_NUM_THREADS says (Snakemake sets it from a rule's `threads`), by default one.

    The last digits of a sum depend on the number of threads, so this number must not follow the machine's cores, and
    jobs that run at the same time must not stall each other. With portable numerics, matrix products are OpenBLAS's in
    this process from here on. Raises a ConfigError if PyTorch sees none of the job's GPUs.

    Args:
        gpus: Number of GPUs that the job takes of those that it sees (`cocal.runtime.gpus.take_gpus`).
        alone: True for a command that a person starts, which has the machine to itself: the default is then a thread
            for each processor, unless numerics are portable.
    """
    import torch

    take_gpus(gpus)
    check_gpus()
    default = processors() if alone and active() != "portable" else 1
    threads = int(os.environ.get("OMP_NUM_THREADS", default))
    torch.set_num_threads(threads)
    if active() == "portable":
        from threadpoolctl import threadpool_limits

        from cocal.runtime.products import use_openblas

        use_openblas()
        threadpool_limits(threads, user_api="blas")


def processors() -> int:
    """Number of the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usual_batch_tokens() -> int:
    """The default number of tokens in a forward pass.

    On a processor, larger batches leave its cache: 18,764 tokens of SmolLM2-135M took 21 s of processor time in batches
    of 4,096, and 27 s in batches of 16,384. Portable numerics keep the batches of studies, which decide the last bits.
    """
    import torch

    return 16384 if torch.cuda.is_available() or active() == "portable" else 4096


def best_device() -> "torch.device":
    """The GPU if there is one, otherwise the processor."""
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
