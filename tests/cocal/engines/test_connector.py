"""The states that the connector keeps while vLLM samples are those of a pass, whatever the model and the cache."""

from functools import partial

import numpy as np
import pytest
import torch

from cocal.features.forward import score
from cocal.models.loading import load_policy
from cocal_study.config.engine import VllmSettings
from cocal_study.generation import vllm_engine
from cocal_study.generation.engines import Sampling
from micro import own_copy
from reading_engine import open_reading, read, sampled
from rounding import same_states

pytestmark = pytest.mark.vllm


def checkpoint(kind: str, folder, micro, **settings):
    """A random model of a kind, with the micro policy's tokenizer."""
    import transformers

    sizes = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 2, "vocab_size": 384}
    sizes |= {"num_key_value_heads": 1, "head_dim": 32, "intermediate_size": 96, "max_position_embeddings": 256}
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **{**sizes, **settings})
    model = transformers.AutoModelForCausalLM.from_config(config)
    for weights in model.parameters():
        if weights.dim() > 1:
            torch.nn.init.normal_(weights, std=0.15)
    own_copy(micro, folder)
    for file in folder.glob("*.safetensors"):
        file.unlink()
    model.save_pretrained(folder)
    return folder


def test_the_states_of_a_model_that_runs_as_transformers_own_are_those_of_a_pass(micro_checkpoint, tmp_path):
    """Mixtral, which vLLM's own implementation gives none of, with twelve blocks, some of whose names begin alike."""
    given = {"num_hidden_layers": 12, "num_local_experts": 4, "num_experts_per_tok": 2}
    folder = checkpoint("mixtral", tmp_path / "mixtral", micro_checkpoint, **given)
    layers, poolings = [1, 10, 11], ("last", "mean", "prompt")
    prompts, responses = [[1, 30 + k, 40] for k in range(6)], [[50 + k, 60, 70 + k, 9][: 1 + k % 4] for k in range(6)]
    policy = load_policy(folder)
    options = {"layers": layers, "pad": policy.pad, "poolings": poolings}
    expected = score(policy.model, prompts, responses, [np.arange(6)], **options).features
    del policy
    settings = VllmSettings(kind="vllm", eager=True, memory_share=0.2, max_length=64)
    with open_reading(settings, folder, layers, poolings) as engine:
        found = read(engine, prompts, responses)
    same_states(found / np.abs(expected).max(), expected / np.abs(expected).max())


def test_states_are_those_of_a_pass_after_preemptions_and_prefix_hits(micro_checkpoint, tmp_path, monkeypatch):
    """In a cache of twenty-four small blocks, which some of the hundred responses must leave while they grow."""
    import vllm

    own, usual = own_copy(micro_checkpoint, tmp_path / "own"), vllm.LLM
    monkeypatch.setattr(vllm, "LLM", partial(usual, block_size=32, disable_log_stats=False))
    monkeypatch.setattr(vllm_engine, "_CPU_CACHE_BYTES", 24 * 32 * 512)
    prompts = [[1, 30 + k, 40, 50] + [20] * (17 * k % 50) for k in range(20)]
    sampling = Sampling(temperature=1.0, top_k=0, top_p=1.0, presence_penalty=0.0, max_tokens=40, samples=5)
    poolings, settings = (
        ("last", "mean", "prompt"),
        VllmSettings(kind="vllm", eager=True, memory_share=0.2, max_length=128),
    )
    with open_reading(settings, own, [0, 1], poolings) as engine:
        found = sampled(engine, prompts, sampling, [1000 * k for k in range(20)])
        counted = {one.name: one.value for one in engine._llm.get_metrics() if hasattr(one, "value")}
    assert min(counted[f"vllm:{name}"] for name in ("num_preemptions", "prefix_cache_hits")) > 20
    asked, responses, states = zip(*found, strict=True)
    policy = load_policy(own)
    options = {"layers": [0, 1], "pad": policy.pad, "poolings": poolings}
    same_states(np.stack(states), score(policy.model, asked, responses, [np.arange(100)], **options).features)
