"""vLLM in the processes of the training and on their GPUs (`policy.trl.vllm`)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec

import torch

from cocal.config.policy import TrlSettings
from cocal.errors import ConfigError
from cocal.runtime.gpus import NO_COMPILER, NO_VLLM, has_compiler


def require_vllm() -> None:
    """Raise ConfigError where vLLM cannot run in this process."""
    if find_spec("vllm") is None:
        raise ConfigError(f"policy.trl.vllm: {NO_VLLM}")
    if not torch.cuda.is_available():
        raise ConfigError("policy.trl.vllm: there is no GPU here; train on a node with GPUs, or switch vllm off")
    if not has_compiler():
        raise ConfigError(f"policy.trl.vllm: {NO_COMPILER}")


def vllm_arguments(settings: TrlSettings) -> dict[str, object]:
    """TRL's arguments for its vLLM. TRL's importance-sampling correction is off: slime has none."""
    if not settings.vllm:
        return {}
    return {
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": settings.vllm_memory_share,
        "vllm_max_model_length": settings.vllm_max_length,
        "vllm_enable_sleep_mode": True,
        "vllm_importance_sampling_correction": False,
    }


@contextmanager
def opening_vllm(settings: TrlSettings) -> Iterator[None]:
    """Give the vLLM that TRL opens in this context what TRL has no arguments for.

    FlashInfer's sampler is off, as in `cocal.generation.vllm_engine`. The attention backend is that of the
    settings: TRL passes no such argument on, so the name by which it calls vLLM is bound to it while the context lasts.
    """
    if not settings.vllm:
        yield
        return
    from trl.generation import vllm_generation

    os.environ["VLLM_USE_FLASHINFER_SAMPLER"] = "0"
    plain = vllm_generation.LLM
    vllm_generation.LLM = partial(plain, attention_backend=settings.vllm_attention_backend)
    try:
        yield
    finally:
        vllm_generation.LLM = plain
