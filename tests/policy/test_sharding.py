"""What FSDP is asked for: sums of gradients in float32, after every micro-batch."""

from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import FullyShardedDataParallelPlugin

from cocal.config.policy import PolicySettings, TrlSettings
from cocal.policy.train import sum_gradients_in, trl_arguments

SHARDED = {"shard": True, "vllm": True}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_are_summed_in_the_format_of_the_key(dtype):
    """Accelerate's own policy is bfloat16 for everything."""
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2)
    plugin.set_mixed_precision("bf16")
    assert plugin.mixed_precision_policy.reduce_dtype == torch.bfloat16
    accelerator = SimpleNamespace(state=SimpleNamespace(fsdp_plugin=plugin))
    sum_gradients_in(accelerator, TrlSettings(reduce_dtype=dtype, **SHARDED))
    assert plugin.mixed_precision_policy.reduce_dtype == getattr(torch, dtype)
    assert plugin.mixed_precision_policy.param_dtype == torch.bfloat16


def test_nothing_is_summed_without_sharding():
    sum_gradients_in(Accelerator(cpu=True), TrlSettings())


def test_no_gpu_holds_the_gradients_of_all_weights(tmp_path):
    for trl, expected in ((SHARDED, {"sync_each_batch": True}), ({}, {})):
        arguments = trl_arguments(PolicySettings(dataset="deepscaler", trl=trl), "grpo", tmp_path)
        assert arguments.accelerator_config.gradient_accumulation_kwargs == expected
