"""Companions learn from states of the training's passes and are applied to states of evaluation's: their precisions.

On a GPU, training holds float32 weights and passes are bfloat16, while evaluation holds bfloat16 weights. The tests
repeat both on the processor, with the micro policy and with a random policy as deep as Qwen3-8B.
"""

import copy
from collections.abc import Iterator

import numpy as np
import pytest
import torch
import torch.distributed as dist
from accelerate.utils import FullyShardedDataParallelPlugin
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import Qwen3Config, Qwen3ForCausalLM

from cocal.features.forward import score

PROMPTS = [[1, 30 + k, 40, 50] for k in range(6)]
RESPONSES = [[60 + (7 * k + j) % 200 for j in range(20 + 3 * k)] for k in range(6)]


@pytest.fixture(params=["micro", "36 blocks"])
def policy(request, micro_policy) -> Qwen3ForCausalLM:
    """A policy in float32 whose weights are bfloat16 numbers, as those of a published checkpoint are."""
    if request.param == "micro":
        model = copy.deepcopy(micro_policy.model)
    else:
        shape = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 36, "vocab_size": 300}
        heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
        torch.manual_seed(0)
        model = Qwen3ForCausalLM(Qwen3Config(**shape, **heads)).eval()
    return model.to(torch.bfloat16).float()


@pytest.fixture
def mesh() -> Iterator:
    """One process that shards for itself."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def states(model: Qwen3ForCausalLM, autocast: bool, together: int = 6) -> np.ndarray:
    """Last and mean states of the final block, float32 (responses, 2, hidden), from batches of so many rows."""
    layers = (model.config.num_hidden_layers - 1,)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        batches = np.arange(6).reshape(-1, together)
        part = score(model, PROMPTS, RESPONSES, batches, layers=layers, pad=0, logprobs=True)
    return np.asarray(part.features)[:, 0].astype(np.float32)


def apart(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Relative distance of last states and of mean states."""
    return np.linalg.norm(one - other, axis=(0, 2)) / np.linalg.norm(other, axis=(0, 2))


def test_sharded_training_reads_the_states_of_evaluation(policy, mesh):
    """FSDP gathers the weights in bfloat16, so that the residual stream is bfloat16 as well: the bits are the same.
    States of batches of other shapes, whose products sum in another order, are nearer than rounding takes them from
    exact ones."""
    exact, rounded = states(policy, autocast=False), copy.deepcopy(policy).to(torch.bfloat16)
    evaluated, of_pairs = (states(rounded, autocast=False, together=size) for size in (6, 2))
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2)
    plugin.set_mixed_precision("bf16")
    for module in (*policy.model.layers, policy):
        fully_shard(module, mesh=mesh, mp_policy=plugin.mixed_precision_policy)
    trained = states(policy, autocast=True)
    np.testing.assert_array_equal(trained, evaluated)
    assert (apart(trained, of_pairs) < apart(evaluated, exact)).all()


def test_unsharded_training_is_as_near_as_rounding_lets_evaluation_be(policy):
    """Its residual stream is float32. The states are about as far from evaluation's as these are from exact ones."""
    exact = states(policy, autocast=False)
    evaluated = states(copy.deepcopy(policy).to(torch.bfloat16), autocast=False)
    trained = states(policy, autocast=True)
    rounding = apart(evaluated, exact)
    assert (rounding > 1e-3).all()
    assert (apart(trained, evaluated) < 1.5 * rounding).all()
    assert (apart(trained, exact) < rounding).all()
