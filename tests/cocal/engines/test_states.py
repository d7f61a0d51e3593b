"""Which models can give states inside vLLM."""

import pytest

from cocal.engines.states import implementation
from cocal.errors import ConfigError, ContractError

pytestmark = pytest.mark.vllm


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
