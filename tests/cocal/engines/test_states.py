"""The states of responses inside vLLM: sums over steps of any form, and which models can give states."""

from functools import partial

import numpy as np
import pytest
import torch

from cocal.engines import vllm_engine
from cocal.engines.engine import Sampling
from cocal.engines.settings import VllmSettings
from cocal.engines.states import Reading, implementation
from cocal.errors import ConfigError, ContractError
from cocal.features.forward import score
from cocal.models.loading import load_policy
from cocal_study.generation.engines import open_engine
from micro import own_copy
from rounding import same_states

pytestmark = pytest.mark.vllm

LAYERS, HIDDEN = 2, 6


def computed(draw, sums, late: bool) -> int:
    """Compute seventy requests in steps of random sizes, some preempted, and compare what is read of their responses.

    Returns:
        How many tokens were computed again.
    """
    from cocal.engines.states_connector import Computed, Step

    names = [f"r{k}" for k in range(70)]
    prompt = {name: int(draw.integers(1, 9)) for name in names}
    length = {name: prompt[name] + int(draw.integers(1, 30)) for name in names}
    states = {name: torch.randn(length[name] + 400, LAYERS, HIDDEN) for name in names}
    done, reached, found, again = dict.fromkeys(names, 0), dict.fromkeys(names, 0), {}, 0
    given = set(names[::3])  # their responses exist, and are a part of the request's prompt
    told, known = {name: length[name] for name in given}, {}
    every = {name: int(draw.integers(1, 6)) for name in names if name not in given and draw.random() < 0.5}
    begun, grown = {name: (prompt[name], every.get(name, 0)) for name in names}, []
    while len(found) < len(names):
        running = [name for name in names if name not in found and draw.random() < 0.7]
        sizes = []
        for name in running:
            if draw.random() < 0.1:  # preempted, and resumed with a prefix that the cache still holds
                done[name] = int(draw.integers(0, max(1, reached[name])))
            read = length[name] if name in given else max(prompt[name], reached[name])
            sizes.append(min(int(draw.integers(1, 7)), max(1, read - done[name])))  # what is known, or one token more
            again += max(0, min(reached[name], done[name] + sizes[-1]) - done[name])
        rows = [states[name][done[name] : done[name] + k] for name, k in zip(running, sizes, strict=True)]
        # a request that is not followed lies before them, and a graph pads the rows
        rows = torch.cat([torch.full((3, LAYERS, HIDDEN), 9.0), *rows, torch.full((4, LAYERS, HIDDEN), torch.nan)])
        starts = np.array([5, *(done[name] for name in running)], np.int64)
        sums.follow(Step(begun, told))
        sums.add(Computed(list(rows.unbind(1)), ["other", *running], np.cumsum([0, 3, *sizes]), starts))
        if sums.due:
            of_due = sums.pooled([name for name, _ in sums.due], ("last", "mean"))
            grown += [(name, tokens, one) for (name, tokens), one in zip(sums.due, of_due, strict=True)]
        if whole := sums.whole():
            found |= dict(zip(whole, sums.pooled(whole, ("mean", "prompt", "last")), strict=True))
        begun, told, known = {}, known, {}
        for name, k in zip(running, sizes, strict=True):
            done[name] += k
            if name not in given and reached[name] < length[name] - 1 <= done[name]:  # the last token is sampled
                (known if late else told)[name] = length[name]
            reached[name] = max(reached[name], done[name])
    for name in names:
        whole = states[name][: length[name]]
        expected = torch.stack([whole[prompt[name] :].mean(0), whole[prompt[name] - 1], whole[-1]], 1)
        torch.testing.assert_close(found[name], expected, rtol=0, atol=3e-6)
    # with late news of an end, what its last token makes due is read, too
    expected = {(name, k) for name in every for k in range(every[name], length[name] - prompt[name], every[name])}
    ends = {(name, length[name] - prompt[name]) for name in every}
    counted = [(name, tokens) for name, tokens, _ in grown]
    assert len(counted) == len({*counted}) >= len(expected) > 50
    assert expected <= {*counted} <= expected | (ends if late else set())
    for name, tokens, one in grown:
        part = states[name][prompt[name] : prompt[name] + tokens]
        torch.testing.assert_close(one, torch.stack([part[-1], part.mean(0)], 1), rtol=0, atol=3e-6)
    sums.follow(Step(gone=names))
    return again


@pytest.mark.parametrize("late", [False, True])
def test_sums_are_those_of_the_states_whatever_the_steps(late):
    """Chunks, preemptions, padding, requests that are not followed, more requests than places, and places used again.
    With late news of an end, as in asynchronous scheduling, its token may be computed before."""
    from cocal.engines.states_connector import Sums

    sums = Sums(torch.device("cpu"), prompts=True)
    for seed in range(4):
        assert computed(np.random.default_rng(seed), sums, late) > 500
        assert (sums._places, sums._ended, len(sums._free)) == ({}, {}, sums._counts.shape[1])


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


def test_a_model_that_gives_no_states_is_refused_before_it_is_loaded(tmp_path):
    from transformers import AutoConfig

    for kind, name in (
        *(("gpt2", "GPT2LMHeadModel"), ("opt", "OPTForCausalLM"), ("mamba", "MambaForCausalLM")),
        *(("llama", "LlamaForCausalLM"), ("phi3", "Phi3ForCausalLM"), ("qwen3_moe", "Qwen3MoeForCausalLM")),
        *(("gemma2", "Gemma2ForCausalLM"), ("glm4", "Glm4ForCausalLM"), ("mixtral", "MixtralForCausalLM")),
        ("llama", "NobodysForCausalLM"),
    ):
        AutoConfig.for_model(kind, architectures=[name]).save_pretrained(tmp_path)
        if kind in ("gpt2", "opt", "mamba") or name == "NobodysForCausalLM":
            with pytest.raises(ContractError, match=f"vLLM gives no hidden states of {name}, .*Gemma, GLM and Mixtral"):
                implementation(tmp_path)
        else:
            assert implementation(tmp_path) == ("vllm" if kind in ("llama", "phi3", "qwen3_moe") else "transformers")


def test_the_second_model_runner_is_refused():
    """Nobody has run it: it needs a GPU with Triton."""
    from types import SimpleNamespace

    from cocal.engines.states_worker import StatesWorker

    with pytest.raises(ConfigError, match=r"second model runner .*set VLLM_USE_V2_MODEL_RUNNER=0"):
        StatesWorker.init_device(SimpleNamespace(use_v2_model_runner=True))


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Qwen2", "Qwen3", "Phi3", "Granite", "GptOss", "DeepseekV3"])
def test_the_families_that_are_named_give_states(name):
    from vllm import ModelRegistry
    from vllm.model_executor.models.interfaces import supports_eagle3

    assert supports_eagle3(ModelRegistry.models[f"{name}ForCausalLM"].load_model_cls())


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
    with open_engine(VllmSettings(kind="vllm", max_length=64), folder, reading=reading) as engine:
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
    with open_engine(VllmSettings(kind="vllm", max_length=128), own, reading=reading) as engine:
        groups = engine.generate(prompts, sampling, [1000 * k for k in range(20)], read=5)
        counted = {one.name: one.value for one in engine._llm.get_metrics() if hasattr(one, "value")}
    assert min(counted[f"vllm:{name}"] for name in ("num_preemptions", "prefix_cache_hits")) > 20
    asked, responses, states = zip(
        *((p, one.token_ids, one.states) for p, group in zip(prompts, groups, strict=True) for one in group),
        strict=True,
    )
    policy = load_policy(own)
    options = {"layers": [0, 1], "pad": policy.pad, "poolings": reading.poolings}
    same_states(np.stack(states), score(policy.model, asked, responses, [np.arange(100)], **options).features)
