"""What FSDP is asked for beyond the flags of `accelerate launch` (`policy.trl.shard`)."""

from dataclasses import replace

import torch
from accelerate import Accelerator

from cocal.config.policy import TrlSettings


def accumulation(settings: TrlSettings) -> dict[str, bool]:
    """Accelerate's settings for the gradients of an update's micro-batches.

    Sharded gradients are summed over the GPUs after every micro-batch. Otherwise each GPU would hold the gradients of
    all weights until the last one: in float32, 33 GB for Qwen3-8B and 59 GB for Qwen3-14B.
    """
    return {"sync_each_batch": True} if settings.shard else {}


def sum_gradients_in(accelerator: Accelerator, settings: TrlSettings) -> None:
    """Choose the number format of the sums over GPUs, before the model is sharded.

    Accelerate takes the format of the passes for everything, and has no setting for this.
    """
    if not settings.shard:
        return
    plugin = accelerator.state.fsdp_plugin
    if plugin.mixed_precision_policy is not None:
        dtype = getattr(torch, settings.reduce_dtype)
        plugin.mixed_precision_policy = replace(plugin.mixed_precision_policy, reduce_dtype=dtype)
