"""What vLLM's process asks of vLLM on a GPU, which a stand-in for the package writes down."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from cocal.config import load_study
from cocal.config.engine import VllmSettings
from cocal.config.policy import TrlSettings
from cocal.errors import ConfigError
from cocal.generation.engines import open_engine
from cocal.study.estimate import Assumptions

PACKAGE = """
import json, os
from pathlib import Path

__version__ = "0"
BEFORE = dict(os.environ)  # vLLM reads its variables when it is imported and later


class LLM:
    def __init__(self, model, **arguments):
        found = {"model": model, "arguments": arguments, "environment": dict(os.environ)}
        Path(os.environ["ASKED"]).write_text(json.dumps(found))
"""
PLATFORMS = """
class current_platform:
    is_cpu = staticmethod(lambda: False)
    has_device_capability = staticmethod(lambda number: True)
"""


@pytest.fixture
def asked(tmp_path, monkeypatch, micro_checkpoint):
    """Open an engine with these settings; return the arguments of vLLM's `LLM` and the environment that it finds."""
    package = tmp_path / "vllm"
    package.mkdir()
    (package / "__init__.py").write_text(PACKAGE)
    (package / "platforms.py").write_text(PLATFORMS)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexport PYTHONPATH={tmp_path}; exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("ASKED", str(tmp_path / "asked.json"))

    def ask(settings: VllmSettings) -> tuple[dict[str, Any], dict[str, str]]:
        with open_engine(settings.model_copy(update={"python": str(python)}), micro_checkpoint):
            found = json.loads(Path(tmp_path / "asked.json").read_text())
        return found["arguments"], found["environment"]

    return ask


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
    study = load_study(Path(__file__).parents[1] / "config/paper.yaml")
    engines = (study.generation.engine.attention_backend, study.judge.engine.attention_backend)
    assert engines == ("FLASH_ATTN", "FLASH_ATTN")
    assert study.policy.trl.vllm_attention_backend == "FLASH_ATTN"


def test_the_cache_holds_what_is_decoded_together():
    """Keys and values of Qwen3-14B in bfloat16 (40 layers, 8 heads of 128) on a B200 of 180 GB: otherwise vLLM stops
    responses in the middle and computes their beginnings again."""
    study = load_study(Path(__file__).parents[1] / "config/paper.yaml")
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
