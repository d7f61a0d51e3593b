"""Process-wide settings that make runs repeatable."""

import os


def one_thread() -> None:
    """One compute thread a process, unless OMP_NUM_THREADS says otherwise.

    Results then do not depend on the number of cores, and jobs side by side do not stall each other.
    """
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
