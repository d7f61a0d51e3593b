"""The least memory that the jobs of a study need on each of their GPUs: weights, gradients, moments and vLLM's share.

Activations, caches and logits come on top; `make gpu` tries a card with them.
"""

from collections.abc import Collection
from typing import NamedTuple

from cocal_study.config.study import Study
from cocal_study.resources.estimate import HALF, RULES, SINGLE, OnGpu, on_gpu, parameters_of

GIB = 2**30
OVERHEAD = 1.5 * GIB
"""Bytes of the context of CUDA, of CUDA graphs and of what the allocator cannot use."""
AS_MUCH = 1.02
"""Cards of the same size differ by a percent in the memory that they state."""


class Gpu(NamedTuple):
    """A GPU as its maker describes it: its name for readers, a part of its name as `nvidia-smi` and SLURM print it (in
    lower case without spaces and hyphens), GiB of memory as `nvidia-smi` counts them, the peak rate of dense bfloat16
    products, and TB/s of its memory."""

    label: str
    pattern: str
    memory: float
    teraflops: float
    bandwidth: float


GPUS = (
    Gpu("RTX 4090", "rtx4090", 23.99, 165.2, 1.008),
    Gpu("A100 80 GB", "a100", 80.0, 312.0, 2.039),
    Gpu("H100 80 GB", "h100", 79.65, 989.4, 3.35),
    Gpu("H200", "h200", 140.4, 989.4, 4.8),
    Gpu("B200", "b200", 179.06, 2250.0, 8.0),
)


def gpu_of(name: str) -> Gpu | None:
    """The GPU of a name of `nvidia-smi` or SLURM, such as "NVIDIA GeForce RTX 4090" or "h100"; None for another one.

    An A100 of 40 GB is taken for one of 80 GB: its own memory counts where it is known.
    """
    plain = name.lower().replace(" ", "").replace("-", "").replace("_", "")
    return next((gpu for gpu in GPUS if gpu.pattern in plain), None)


def fitting_card(study: Study, memory: float) -> str | None:
    """The largest card of a study that has no more memory than a GPU of `memory` GiB; None if there is none."""
    fitting = {name: card.memory for name, card in study.cards.items() if card.memory <= AS_MUCH * memory}
    return max(fitting, key=fitting.__getitem__) if fitting else None


def least_memory(study: Study, held: OnGpu | None, memory: float, backbone: str | None = None) -> float:
    """GiB that a job surely holds on each of its GPUs, of `memory` GiB; 0 without GPUs.

    Args:
        backbone: By default that which needs most.
    """
    if held is None:
        return 0
    if backbone is None:
        return max(least_memory(study, held, memory, name) for name in study.backbones)
    trl, engine, weights = study.policy.trl, study.generation.engine, HALF * parameters_of(study.backbones[backbone])
    share = engine.memory_share * memory * GIB if engine.kind == "vllm" else weights
    if held == "update":
        sharded = trl.nodes * trl.devices if trl.shard else 1
        single = SINGLE / HALF * weights / sharded
        kept = single * (1 if trl.moments == "host" else 3)  # weights, and both moments of Adam
        update = kept + single + (weights if sharded == 1 else 0)  # gradients, and autocast's copies in bfloat16
        rollouts = kept + trl.vllm_memory_share * memory * GIB if trl.vllm else 0
        return (max(update, rollouts) + OVERHEAD) / GIB
    parts = {"engine": share, "engine and policy": share + weights, "policy": weights, "companions": 0}
    return (parts[held] + OVERHEAD) / GIB


_REMEDIES = {
    "update": "set policy.trl.moments: host or policy.trl.shard, or lower policy.trl.vllm_memory_share",
    "engine and policy": "lower generation.engine.memory_share",
}


def too_small(study: Study, memory: float, rules: Collection[str] = tuple(RULES)) -> list[str]:
    """A sentence for each backbone and kind of job of these rules that a GPU of `memory` GiB is surely too small for.
    The judge is not counted: its shape is not known."""
    kinds, trl, engine, found = on_gpu(rules), study.policy.trl, study.generation.engine, []
    shares = []  # vLLM's, each of which has to hold the weights
    if trl.vllm and "update" in kinds:
        shares.append(("policy.trl.vllm_memory_share", trl.vllm_memory_share, 1))
    if engine.kind == "vllm" and "engine" in kinds:
        shares.append(("generation.engine.memory_share", engine.memory_share, engine.tensor_parallel))
    for name, backbone in study.backbones.items():
        for held in sorted(kinds):
            if (need := least_memory(study, held, memory, name)) > memory:
                remedy = _REMEDIES.get(held, "lower the size of the model in backbones")
                found.append(f"{name}, {held}: at least {need:.1f} GiB, and the GPU has {memory:.1f} GiB: {remedy}")
        for key, share, gpus in shares:
            if (need := (HALF * parameters_of(backbone) / gpus + OVERHEAD) / GIB) > share * memory:
                given = f"its share is {share * memory:.1f} GiB"
                found.append(f"{name}: vLLM needs {need:.1f} GiB, but {given}: raise {key}")
    return found
