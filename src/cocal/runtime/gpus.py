"""The GPUs of this machine, and those that a job takes.

PyTorch without a usable driver computes on the processor and says little about it. A job for an 8B policy would then
run until its time limit, so `check_gpus` refuses.
"""

import logging
import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cocal.errors import BusyError, ConfigError, first_line
from cocal.runtime import lock

PROCESSOR_ONLY = "COCAL_PROCESSOR_ONLY"
"""The environment variable that lets jobs with GPUs compute on the processor, as a rehearsal without real GPUs does."""
SECOND_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
"""The environment variable that says whether vLLM uses its second model runner, as GPUs do by default since 0.29. All
that we do with vLLM was tried with the first one alone."""
_QUERY = ("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits")
_GRANTED = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES")
"""Variables that list a job's GPUs, by SLURM or by the user."""
_NONE = {"", "-1", "NoDevFiles"}
"""Values that list no GPU."""


class Gpu(NamedTuple):
    """A GPU that the driver lists: its name and GiB of memory."""

    name: str
    memory: float


def listed_gpus() -> str:
    """What nvidia-smi lists, a line for each GPU; empty without a driver."""
    with suppress(OSError, subprocess.SubprocessError):  # it is slow where no process holds the driver
        return subprocess.run(_QUERY, check=True, capture_output=True, text=True, timeout=60).stdout
    return ""


def parse_gpus(listing: str, visible: str | None) -> tuple[tuple[Gpu, ...], str | None]:
    """GPUs and driver in the output of `nvidia-smi`, a line for each GPU: name, MiB, driver.

    In the value of CUDA_VISIBLE_DEVICES (`visible`), if it is set, numbers choose GPUs; other names are only counted.
    """
    rows = [[cell.strip() for cell in line.split(",")] for line in listing.splitlines() if line.count(",") == 2]
    gpus = [Gpu(name, float(memory) / 1024) for name, memory, _ in rows]
    driver = rows[0][2] if rows else None
    if visible is not None:
        chosen = [word for word in visible.split(",") if word.strip() not in _NONE]
        numbers = [int(word) if word.strip().isdecimal() else k for k, word in enumerate(chosen)]
        gpus = [gpus[k] for k in numbers if k < len(gpus)]
    return tuple(gpus), driver


def take_gpus(count: int) -> None:
    """Hide all GPUs but `count` from this process, and take those that no other job of this user has taken.

    TRL refuses a process that sees several GPUs, and jobs that run side by side would all take the first one. Each
    process of a launcher takes the GPU of its rank. CUDA reads the variable when PyTorch first asks for a GPU, so this
    comes before.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        names = [str(k) for k in range(len(parse_gpus(listed_gpus(), None)[0]))]
    else:
        names = [word.strip() for word in visible.split(",") if word.strip() not in _NONE]
    if len(names) <= count or "LOCAL_RANK" in os.environ:
        return
    taken = []
    for name in names:
        # SLURM grants other GPUs to each of its jobs, and may number them from 0 in all of them
        words = ["cocal-gpu", str(os.getuid()), os.environ.get("SLURM_JOB_ID", ""), name]
        with suppress(BusyError):
            if len(taken) < count:
                lock.hold(Path(tempfile.gettempdir()) / "-".join(filter(None, words)))
                taken.append(name)
    if len(taken) < count:
        logging.warning("other jobs have taken the GPUs %s, and this one shares them", ", ".join(names))
    shared = [name for name in names if name not in taken]
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join([*taken, *shared][:count])


def check_gpus() -> None:
    """Raise a ConfigError if the environment lists GPUs, but PyTorch would compute on the processor."""
    listed = next((name for name in _GRANTED if os.environ.get(name, "") not in _NONE), None)
    if listed is None or os.environ.get(PROCESSOR_ONLY) or not (obstacle := torch_obstacle()):
        return
    raise ConfigError(
        f"GPUs were granted to this job ({listed}={os.environ[listed]}), but PyTorch sees none: {obstacle}. To compute "
        f"on the processor all the same, export {PROCESSOR_ONLY}=1"
    )


def torch_obstacle() -> str | None:
    """The reason why PyTorch sees no GPU, in its own words; None where it sees one."""
    import torch

    if torch.cuda.is_available():
        return None
    try:
        torch.cuda.init()
    except Exception as error:  # a build for processors, a missing driver and an old one raise different errors
        return first_line(error).rstrip(".")
    return "it finds no fault; see what nvidia-smi says"
