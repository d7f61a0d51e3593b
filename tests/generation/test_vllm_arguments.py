"""What vLLM's process asks of vLLM on a GPU, which a stand-in for the package writes down."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cocal.config import load_study
from cocal.config.engine import VllmSettings
from cocal.config.policy import TrlSettings
from cocal.errors import ConfigError
from cocal.generation.engine import Sampling
from cocal.generation.engines import open_engine
from cocal.models.loading import stored_end_tokens
from cocal.resources.estimate import Assumptions

PACKAGE = '''
import json, os
from pathlib import Path
from types import SimpleNamespace

__version__ = "0"
BEFORE = dict(os.environ)  # vLLM reads its variables when it is imported and later


class LLM:
    model_config = SimpleNamespace(max_model_len=50)

    def __init__(self, model, **arguments):
        found = {"model": model, "arguments": arguments, "environment": dict(os.environ)}
        Path(os.environ["ASKED"]).write_text(json.dumps(found))

    def reset_prefix_cache(self):
        pass

    def generate(self, prompts, parameters, use_tqdm):
        found = [{"prompt": prompt["prompt_token_ids"], **vars(one)} for prompt, one in zip(prompts, parameters)]
        Path(os.environ["ASKED"]).write_text(json.dumps(found))
        return [answer(one, k) for k, one in enumerate(parameters)]


def answer(asked, k):
    """The k-th request is answered by k + 1 tokens; every second one is cut."""
    ids = getattr(asked, "logprob_token_ids", range(k))
    logprobs = SimpleNamespace(logprobs=[-1.0 - k - place / 8 for place in range(1 + len(ids))])
    reason = "length" if k % 2 else "stop"
    return SimpleNamespace(outputs=[SimpleNamespace(token_ids=[70 + k, *ids], logprobs=logprobs, finish_reason=reason)])


def TokensPrompt(**fields):
    return fields


SamplingParams = SimpleNamespace
'''
PLATFORMS = """
class current_platform:
    is_cpu = staticmethod(lambda: False)
    has_device_capability = staticmethod(lambda number: True)
"""


@pytest.fixture
def engine(tmp_path, monkeypatch, micro_checkpoint):
    """Opens an engine with these settings; what vLLM was last asked lies in `asked.json`."""
    package = tmp_path / "vllm"
    package.mkdir()
    (package / "__init__.py").write_text(PACKAGE)
    (package / "platforms.py").write_text(PLATFORMS)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexport PYTHONPATH={tmp_path}; exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("ASKED", str(tmp_path / "asked.json"))

    return lambda settings: open_engine(settings.model_copy(update={"python": str(python)}), micro_checkpoint)


@pytest.fixture
def asked(engine, tmp_path):
    """Open an engine with these settings; return the arguments of vLLM's `LLM` and the environment that it finds."""

    def ask(settings: VllmSettings) -> tuple[dict[str, Any], dict[str, str]]:
        with engine(settings):
            found = json.loads((tmp_path / "asked.json").read_text())
        return found["arguments"], found["environment"]

    return ask


def test_every_setting_reaches_vllm_under_its_own_name(asked):
    settings = {"tensor_parallel": 3, "memory_share": 0.61, "max_length": 47, "max_sequences": 29}
    arguments, environment = asked(VllmSettings(kind="vllm", prefix_caching=False, batch_invariant=True, **settings))
    expected = {"tensor_parallel_size": 3, "gpu_memory_utilization": 0.61, "max_model_len": 47, "max_num_seqs": 29}
    expected |= {"enable_prefix_caching": False, "seed": 0, "dtype": "bfloat16", "load_format": "safetensors"}
    expected |= {"generation_config": "vllm", "logprobs_mode": "raw_logprobs"}
    assert {name: arguments[name] for name in expected} == expected
    assert environment["VLLM_BATCH_INVARIANT"] == "1"


def test_every_sampling_parameter_and_seed_reaches_vllm_and_every_answer_comes_back(engine, tmp_path, micro_checkpoint):
    sampling = Sampling(temperature=0.6, top_k=17, top_p=0.9, presence_penalty=1.5, max_tokens=7, samples=3)
    with engine(VllmSettings(kind="vllm")) as one:
        found = one.generate([[5, 6], [8, 9, 10]], sampling, [100, 2**40 + 5])
        asked = json.loads((tmp_path / "asked.json").read_text())
        logprobs = one.next_token_logprobs([[5], [6, 7]], [31, 33, 32])
        judged = json.loads((tmp_path / "asked.json").read_text())
    assert [request["prompt"] for request in asked] == [[5, 6]] * 3 + [[8, 9, 10]] * 3
    assert [request["seed"] for request in asked] == [100, 101, 102, 2**40 + 5, 2**40 + 6, 2**40 + 7]
    wanted = {"temperature": 0.6, "top_k": 17, "top_p": 0.9, "presence_penalty": 1.5, "max_tokens": 7, "logprobs": 0}
    wanted |= {"ignore_eos": True, "stop_token_ids": sorted(stored_end_tokens(micro_checkpoint))}
    for request in asked:
        assert {name: request[name] for name in wanted} == wanted
        assert "samples" not in request
    answers = [response for group in found for response in group]
    assert [len(group) for group in found] == [3, 3]
    assert [response.token_ids for response in answers] == [[70 + k, *range(k)] for k in range(6)]
    assert [response.finish_reason for response in answers] == ["stop", "length"] * 3
    assert [response.logprobs.tolist() for response in answers] == [
        [-1 - k - place / 8 for place in range(k + 1)] for k in range(6)
    ]
    assert [request["prompt"] for request in judged] == [[5], [6, 7]]
    assert all(request["logprob_token_ids"] == [31, 33, 32] and request["max_tokens"] == 1 for request in judged)
    np.testing.assert_array_equal(logprobs, [[-1.125, -1.25, -1.375], [-2.125, -2.25, -2.375]])


def test_the_sampler_that_is_compiled_on_the_node_is_off(asked):
    """FlashInfer compiles it when vLLM warms up, and a node without nvcc cannot (vllm-project/vllm, issue 49497)."""
    _, environment = asked(VllmSettings(kind="vllm"))
    assert environment["VLLM_USE_FLASHINFER_SAMPLER"] == "0"


def test_attention_kernels_are_those_of_the_settings(asked):
    arguments, _ = asked(VllmSettings(kind="vllm", attention_backend="FLASH_ATTN"))
    assert arguments["attention_backend"] == "FLASH_ATTN"
    arguments, _ = asked(VllmSettings(kind="vllm"))
    assert arguments["attention_backend"] is None  # vLLM chooses


def test_the_paper_study_needs_no_cuda_toolkit():
    """On B200 vLLM's own choice is FlashInfer, which compiles its kernels on the node."""
    study = load_study(Path(__file__).parents[2] / "config/paper.yaml")
    engines = (study.generation.engine.attention_backend, study.judge.engine.attention_backend)
    assert engines == ("FLASH_ATTN", "FLASH_ATTN")
    assert study.policy.trl.vllm_attention_backend == "FLASH_ATTN"


def test_the_cache_holds_what_is_decoded_together():
    """Keys and values of Qwen3-14B in bfloat16 (40 layers, 8 heads of 128) on a B200 of 180 GB: otherwise vLLM stops
    responses in the middle and computes their beginnings again."""
    study = load_study(Path(__file__).parents[2] / "config/paper.yaml")
    memory, weights, activations = 180e9, 29.5e9, 4e9
    token = 40 * 2 * 8 * 128 * 2
    usual = Assumptions()
    rollouts = study.policy.questions_per_step * study.policy.responses_per_question / study.policy.trl.devices
    training = study.policy.trl.vllm_memory_share * memory - weights - activations
    assert rollouts * (usual.prompt_tokens + usual.training_tokens) * token < training
    sampling = study.generation.engine.memory_share * memory - weights - activations
    assert study.generation.engine.max_sequences * (usual.prompt_tokens + usual.factual_tokens) * token < sampling
    assert study.generation.engine.max_sequences >= 1024  # fewer leave most of the cache empty


def test_inference_is_timed_without_prefix_caching(asked):
    """Appendix E.2; evaluation may share the encoding of a prompt."""
    arguments, _ = asked(VllmSettings(kind="vllm").of_concurrency(64))
    assert (arguments["enable_prefix_caching"], arguments["max_num_seqs"]) == (False, 64)
    arguments, _ = asked(VllmSettings(kind="vllm"))
    assert arguments["enable_prefix_caching"] is True


def test_a_node_without_a_compiler_is_refused(asked, monkeypatch, tmp_path):
    """Triton would fail in the middle of vLLM's start."""
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"engine: vLLM's kernels need a C compiler .*envs/vllm\.yaml"):
        asked(VllmSettings(kind="vllm"))
    monkeypatch.setenv("CC", "cc")
    asked(VllmSettings(kind="vllm"))


def test_trls_vllm_gets_what_trl_has_no_arguments_for(monkeypatch):
    """TRL 1.16 passes neither the attention kernels nor the sampler on; its name for vLLM is bound for a while."""
    from trl.generation import vllm_generation

    from cocal.policy.colocated import opening_vllm

    calls = []
    monkeypatch.delenv("VLLM_USE_FLASHINFER_SAMPLER", raising=False)
    monkeypatch.setattr(vllm_generation, "LLM", lambda **arguments: calls.append(arguments), raising=False)
    plain = vllm_generation.LLM
    with opening_vllm(TrlSettings(vllm=True, vllm_attention_backend="FLASH_ATTN")):
        vllm_generation.LLM(model="m", seed=3)
    assert calls == [{"model": "m", "seed": 3, "attention_backend": "FLASH_ATTN"}]
    assert os.environ["VLLM_USE_FLASHINFER_SAMPLER"] == "0"
    assert vllm_generation.LLM is plain
    with opening_vllm(TrlSettings()):
        assert vllm_generation.LLM is plain
