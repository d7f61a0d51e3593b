"""The least memory that the jobs of a study need on each of their GPUs: weights, gradients, moments and vLLM's share.

Activations, caches and logits come on top; `make gpu` tries a card with them.
"""

from collections.abc import Collection, Iterator

from cocal_study.config.study import Study
from cocal_study.resources.estimate import RULES, OnGpu, on_gpu
from cocal_study.resources.shapes import HALF, SINGLE, parameters_of

GIB = 2**30
OVERHEAD = 1.5 * GIB
"""Bytes of the context of CUDA, of CUDA graphs and of what the allocator cannot use."""


def least_memory(study: Study, held: OnGpu | None, memory: float) -> float:
    """GiB that a job of the largest backbone surely holds on each of its GPUs, of `memory` GiB; 0 without GPUs."""
    return max(_least(study, name, held, memory) for name in study.backbones) if held else 0


def _least(study: Study, backbone: str, held: OnGpu, memory: float) -> float:
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


def too_small(study: Study, memory: float, rules: Collection[str] = tuple(RULES)) -> list[str]:
    """A sentence for each backbone and kind of job that a GPU of `memory` GiB is surely too small for; an empty list if
    all may fit. The judge is not counted: its shape is not known.

    Args:
        study: The study.
        memory: GiB of the GPU.
        rules: Rules of the jobs that count; by default those of all.
    """
    keys = {
        "update": "set policy.trl.moments: host or policy.trl.shard, or lower policy.trl.vllm_memory_share",
        "engine and policy": "lower generation.engine.memory_share",
    }
    found = []
    for name in study.backbones:
        for held in sorted(on_gpu(rules)):
            need = _least(study, name, held, memory)
            if need > memory:
                remedy = keys.get(held, "lower the size of the model in backbones")
                found.append(f"{name}, {held}: at least {need:.1f} GiB, and the GPU has {memory:.1f} GiB: {remedy}")
        found += [one for kind, one in _shares(study, name, memory) if kind in on_gpu(rules)]
    return found


def _shares(study: Study, name: str, memory: float) -> Iterator[tuple[OnGpu, str]]:
    """A sentence for each share of vLLM that does not hold the weights alone."""
    weights, trl, engine = HALF * parameters_of(study.backbones[name]), study.policy.trl, study.generation.engine
    given: list[tuple[OnGpu, str, float, int]] = []
    if trl.vllm and study.policy.engine == "trl":
        given.append(("update", "policy.trl.vllm_memory_share", trl.vllm_memory_share, 1))
    if engine.kind == "vllm":
        given.append(("engine", "generation.engine.memory_share", engine.memory_share, engine.tensor_parallel))
    for kind, key, share, gpus in given:
        if (need := (weights / gpus + OVERHEAD) / GIB) > share * memory:
            yield kind, f"{name}: vLLM needs {need:.1f} GiB, but its share is {share * memory:.1f} GiB: raise {key}"
