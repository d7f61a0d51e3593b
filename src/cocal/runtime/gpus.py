"""GPUs of this machine, its driver, and what jobs with a GPU need beside them, found without loading PyTorch."""

import os
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

DRIVERS = {"12": "525", "13": "580"}
"""Oldest Linux driver for each major version of CUDA, by NVIDIA's table of minor version compatibility."""
_QUERY = ("nvidia-smi", "--query-gpu=name,memory.total,compute_cap,driver_version", "--format=csv,noheader,nounits")
_TIMEOUT = 60
"""Seconds that `nvidia-smi` may take; it is slow where no process holds the driver."""


class Found(NamedTuple):
    """A GPU that the driver lists."""

    name: str
    memory: float
    """GiB."""
    capability: float
    """Compute capability, such as 8.9."""


class Machine(NamedTuple):
    """What this machine offers to jobs with a GPU."""

    gpus: tuple[Found, ...]
    """GPUs that a job can see, in the driver's order."""
    driver: str | None
    """Version of the driver; None if there is none."""
    torch: str | None
    """Version of the installed PyTorch; None if there is none."""
    cuda: str | None
    """CUDA for which this PyTorch was built; None for a build for processors."""
    compiler: bool
    """Whether Triton finds a C compiler."""
    toolkit: bool
    """Whether the compiler of the CUDA toolkit, nvcc, is found."""
    training_vllm: bool
    """Whether vLLM is installed for this Python, in which policies are trained."""
    sampling_vllm: bool
    """Whether vLLM is installed for the Python that samples: COCAL_VLLM_PYTHON, or this one."""


def this_machine() -> Machine:
    """What this machine offers."""
    gpus, driver = parse_gpus(_listing(), os.environ.get("CUDA_VISIBLE_DEVICES"))
    here = find_spec("vllm") is not None
    return Machine(
        gpus=gpus,
        driver=driver,
        torch=_torch_version(),
        cuda=_torch_cuda(),
        compiler=bool(os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")),
        toolkit=bool(shutil.which("nvcc")) or Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin/nvcc").exists(),
        training_vllm=here,
        sampling_vllm=here or bool(os.environ.get("COCAL_VLLM_PYTHON")),
    )


def parse_gpus(listing: str, visible: str | None) -> tuple[tuple[Found, ...], str | None]:
    """GPUs and driver in the output of `nvidia-smi`, a line for each GPU: name, MiB, compute capability, driver.

    Args:
        visible: CUDA_VISIBLE_DEVICES, if it is set. Numbers choose GPUs, an empty text none; other names are counted.
    """
    rows = [[cell.strip() for cell in line.split(",")] for line in listing.splitlines() if line.count(",") == 3]
    found = [Found(name, float(memory) / 1024, float(capability)) for name, memory, capability, _ in rows]
    driver = rows[0][3] if rows else None
    if visible is not None:
        chosen = [word for word in visible.split(",") if word.strip() not in ("", "-1", "NoDevFiles")]
        numbers = [int(word) if word.strip().isdecimal() else k for k, word in enumerate(chosen)]
        found = [found[k] for k in numbers if k < len(found)]
    return tuple(found), driver


def _listing() -> str:
    try:
        return subprocess.run(_QUERY, check=True, capture_output=True, text=True, timeout=_TIMEOUT).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _torch_version() -> str | None:
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


def _torch_cuda() -> str | None:
    """`torch.version.cuda`, read from its file: the import takes seconds."""
    found = find_spec("torch")
    file = Path(found.origin).with_name("version.py") if found and found.origin else None
    match = re.search(r"^cuda\b[^=\n]*= '([\d.]+)'", file.read_text(), re.MULTILINE) if file and file.exists() else None
    return match[1] if match else None
