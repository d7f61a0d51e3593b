"""GPUs on which a study may run, by their maker's data sheets, and the assumptions of an estimate for each."""

from typing import NamedTuple

from cocal.resources.estimate import Assumptions


class Gpu(NamedTuple):
    """A GPU as its maker describes it."""

    label: str
    """Name for readers."""
    pattern: str
    """Part of its name as `nvidia-smi` and SLURM print it, in lower case without spaces and hyphens."""
    memory: float
    """Memory in GiB, as `nvidia-smi` counts it."""
    teraflops: float
    """Peak rate of dense bfloat16 matrix products with float32 sums."""
    bandwidth: float
    """Bandwidth of its memory in TB/s."""


GPUS = (
    Gpu("RTX 4090", "rtx4090", 23.99, 165.2, 1.008),
    Gpu("A100 80 GB", "a100", 80.0, 312.0, 2.039),
    Gpu("H100 80 GB", "h100", 79.65, 989.4, 3.35),
    Gpu("H200", "h200", 140.4, 989.4, 4.8),
    Gpu("B200", "b200", 179.06, 2250.0, 8.0),
)

_PASSES = 10
"""Floating-point operations of the update for each parameter and token: 2 to read the rollouts' states, 2 forward, 2 to
recompute them, and 4 backward."""
_TIMED = GPUS[-1]
"""The GPU of the paper's times, and of the defaults of `Assumptions`."""


def gpu_of(name: str) -> Gpu | None:
    """The GPU of a name of `nvidia-smi` or SLURM, such as "NVIDIA GeForce RTX 4090" or "h100"; None for another one.

    An A100 of 40 GB is taken for one of 80 GB: its own memory counts where it is known.
    """
    plain = name.lower().replace(" ", "").replace("-", "").replace("_", "")
    return next((gpu for gpu in GPUS if gpu.pattern in plain), None)


def assumptions_on(gpu: Gpu, assumed: Assumptions) -> Assumptions:
    """The assumptions for one GPU of another kind than the paper's B200.

    Decoding is assumed to be as much slower as the memory's bandwidth is lower, and everything else as the rate of
    matrix products. A training is the sum of its sampling and its passes: the paper states its hours, but on which GPUs
    they were taken it does not.
    """
    slower = _TIMED.teraflops / gpu.teraflops
    sampling = assumed.sampling_hours * _TIMED.bandwidth / gpu.bandwidth
    tokens = assumed.responses * (assumed.training_tokens + assumed.prompt_tokens)
    passes = _PASSES * assumed.parameters * tokens / (gpu.teraflops * 1e12 * assumed.utilisation) / 3600
    return assumed.model_copy(
        update={
            "training_hours": sampling + passes,
            "training_gpus": 1,
            "sampling_hours": sampling,
            "companion_seconds": assumed.companion_seconds * slower,
            "peak_teraflops": gpu.teraflops,
        }
    )
