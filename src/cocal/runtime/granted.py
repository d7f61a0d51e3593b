"""The GPUs that a job has been given, which PyTorch must see.

PyTorch without a usable driver computes on the processor and says little about it. A job for an 8B policy would then
run until its time limit.
"""

import os
import re
from pathlib import Path
from types import ModuleType

from cocal.errors import ConfigError
from cocal.runtime.gpus import DRIVERS

PROCESSOR_ONLY = "COCAL_PROCESSOR_ONLY"
"""The environment variable that lets jobs with GPUs compute on the processor, as a rehearsal without real GPUs does."""
_GRANTED = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES")
"""Variables that list a job's GPUs, by SLURM or by the user."""
_NONE = {"", "-1", "NoDevFiles"}
"""Values that list no GPU."""
_DRIVER = Path("/proc/driver/nvidia/version")


def check_gpus() -> None:
    """Refuse to compute on the processor where GPUs were granted.

    Raises:
        ConfigError: if the environment lists GPUs and PyTorch sees none; the message names the build of PyTorch, the
            driver, and the remedy.
    """
    listed = next((name for name in _GRANTED if os.environ.get(name, "") not in _NONE), None)
    if listed is None or os.environ.get(PROCESSOR_ONLY):
        return
    import torch

    if torch.cuda.is_available():
        return
    raise ConfigError(
        f"GPUs were granted to this job ({listed}={os.environ[listed]}), but PyTorch sees none: {_cause(torch)}. To "
        f"compute on the processor all the same, export {PROCESSOR_ONLY}=1"
    )


def _cause(torch: ModuleType) -> str:
    """Why PyTorch sees no GPU, as far as the machine says, and what to do."""
    cuda = torch.version.cuda
    if cuda is None:
        return (
            f"PyTorch {torch.__version__} is a build for processors; install the build for CUDA (`pip install --force-"
            f"reinstall torch=={torch.__version__.partition('+')[0]}`), or run with --sdm conda"
        )
    oldest = DRIVERS.get(cuda.partition(".")[0])
    wanted = f"PyTorch {torch.__version__} is built for CUDA {cuda}, which needs "
    wanted += f"driver {oldest} or newer" if oldest else "a newer driver"
    found = re.search(r"\b\d+\.\d+(\.\d+)?\b", _DRIVER.read_text()) if _DRIVER.is_file() else None
    if found is None:
        return f"{wanted}, and this node has no NVIDIA driver loaded; run on a node that has one"
    return f"{wanted}, and this node has driver {found[0]}; update the driver, or install a build for its CUDA"
