"""vLLM in the processes of the training."""

import os

from trl.generation import vllm_generation

from cocal.config.policy import TrlSettings
from cocal.policy.train import opening_vllm


def test_trls_vllm_gets_what_trl_has_no_arguments_for(monkeypatch):
    """TRL 1.16 passes neither the attention kernels nor the sampler on; its name for vLLM is bound for a while."""
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
