"""The states that vLLM keeps while it samples are those of a pass, whatever the model and the cache."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from cocal.engines.states import Reading
from cocal.errors import ConfigError
from cocal.features.forward import score
from cocal.models.loading import load_policy
from cocal_study.config.engine import VllmSettings
from cocal_study.generation import vllm_engine
from cocal_study.generation.engines import Sampling, open_engine
from micro import own_copy
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
    reading = Reading((1, 10, 11), ("last", "mean", "prompt"))
    prompts, responses = [[1, 30 + k, 40] for k in range(6)], [[50 + k, 60, 70 + k, 9][: 1 + k % 4] for k in range(6)]
    policy = load_policy(folder)
    options = {"layers": reading.layers, "pad": policy.pad, "poolings": reading.poolings}
    expected = score(policy.model, prompts, responses, [np.arange(6)], **options).features
    del policy
    with open_engine(
        VllmSettings(kind="vllm", eager=True, memory_share=0.2, max_length=64), folder, reading=reading
    ) as engine:
        found = np.stack(engine.read(prompts, responses))
    same_states(found / np.abs(expected).max(), expected / np.abs(expected).max())


def test_states_are_those_of_a_pass_after_preemptions_and_prefix_hits(micro_checkpoint, tmp_path, monkeypatch):
    """In a cache of twenty-four small blocks, which some of the hundred responses must leave while they grow."""
    import vllm

    own, usual = own_copy(micro_checkpoint, tmp_path / "own"), vllm.LLM
    monkeypatch.setattr(vllm, "LLM", partial(usual, block_size=32, disable_log_stats=False))
    monkeypatch.setattr(vllm_engine, "_CPU_CACHE_BYTES", 24 * 32 * 512)
    prompts = [[1, 30 + k, 40, 50] + [20] * (17 * k % 50) for k in range(20)]
    sampling = Sampling(temperature=1.0, top_k=0, top_p=1.0, presence_penalty=0.0, max_tokens=40, samples=5)
    reading = Reading((0, 1), ("last", "mean", "prompt"))
    with open_engine(
        VllmSettings(kind="vllm", eager=True, memory_share=0.2, max_length=128), own, reading=reading
    ) as engine:
        groups = engine.generate(prompts, sampling, [1000 * k for k in range(20)], read=5)
        counted = {one.name: one.value for one in engine._llm.get_metrics() if hasattr(one, "value")}
        with pytest.raises(ConfigError, match="a prompt of 4 tokens and a response of 124 do not fit into 127 tokens"):
            engine.generate(prompts[:1], replace(sampling, max_tokens=124), [0])
    assert min(counted[f"vllm:{name}"] for name in ("num_preemptions", "prefix_cache_hits")) > 20
    asked, responses, states = zip(
        *((p, one.token_ids, one.states) for p, group in zip(prompts, groups, strict=True) for one in group),
        strict=True,
    )
    policy = load_policy(own)
    options = {"layers": [0, 1], "pad": policy.pad, "poolings": reading.poolings}
    same_states(np.stack(states), score(policy.model, asked, responses, [np.arange(100)], **options).features)
