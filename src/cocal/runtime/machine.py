"""What a long job needs of its process: repeatable numbers, and how much memory it took."""

import os
import resource
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def fix_threads() -> None:
    """As many compute threads as OMP_NUM_THREADS says, which Snakemake sets from a rule's `threads`; otherwise one.

    Sums depend on the number of threads in their last digits, so it must not follow the machine's cores; and jobs
    side by side must not stall each other.
    """
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


def peak_memory() -> int:
    """Bytes that this process has held at most: of GPU memory where there is a GPU, else resident."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def best_device() -> "torch.device":
    """The GPU, if there is one."""
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
