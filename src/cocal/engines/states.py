"""How vLLM is asked for hidden states: its settings, and the parameters of a request whose response is to be read.

vLLM's models can return the states of chosen blocks beside their output (the interface that EAGLE-3 uses). A connector
keeps the sum and the last of each response's states, and what is read from them comes with the response's output. So
the states cost no forward pass and no room in vLLM's cache.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from cocal.errors import ContractError
from cocal.runtime.gpus import SECOND_RUNNER

STATES = "cocal_states"
"""Name of the pooled states in the `kv_transfer_params` of an output."""
LAYERS = "cocal_layers"
"""Name of the blocks in vLLM's `additional_config`, which separates engines of other blocks in its compile cache."""
FIRST_RUNNER = {SECOND_RUNNER: "0"}
"""Environment variables that select the first of vLLM's two model runners, the one that returns states."""
TRAJECTORY = "cocal_trajectory"
"""Name of the values of a growing response: an earlier output has one with its number of tokens, the last has all."""
BELOW = "cocal_below"
"""vLLM's `stop_reason` of a response that ended since its confidence fell below the threshold of its request, and the
name of the threshold in the request's `kv_transfer_params`."""
EVERY = "cocal_every"
LARGEST = 2**31 - 1
"""The largest number of tokens that a request may name."""
_PROMPT = "cocal_prompt"


def implementation(checkpoint: Path) -> Literal["vllm", "transformers"]:
    """The implementation of a model that gives vLLM states (its `model_impl`): vLLM's own, or that of transformers.
    Raises a ContractError if neither does.

    Args:
        checkpoint: Folder of the model, of which no weights are loaded.
    """
    import transformers
    from vllm import ModelRegistry
    from vllm.model_executor.models.interfaces import supports_eagle3

    config = transformers.AutoConfig.from_pretrained(checkpoint, trust_remote_code=False)
    name = (config.architectures or ["unknown"])[0]
    own, theirs = ModelRegistry.models.get(name), getattr(transformers, name, None)
    if own is not None and supports_eagle3(own.load_model_cls()):
        return "vllm"
    # transformers' older models, whose layers vLLM does not know how to share, do not load or lose their states there
    if theirs is not None and theirs.is_backend_compatible() and config.get_text_config().base_model_tp_plan:
        return "transformers"
    raise ContractError(
        f"{checkpoint}: vLLM gives no hidden states of {name}, neither by its own implementation nor by that of "
        "transformers; it does of Llama, Mistral, Qwen, Phi-3, Granite, gpt-oss and DeepSeek, and of most newer models "
        "of transformers, such as Gemma, GLM and Mixtral. Score such responses by transformers (cocal score)"
    )


def engine_settings(layers: Sequence[int], connector: str, **extra: Any) -> dict[str, Any]:
    """vLLM's settings for an engine whose connector reads the states of blocks.

    Args:
        layers: Zero-based indices of the blocks, in ascending order.
        connector: Module and class of the connector, as in `cocal.engines.states_connector:StatesConnector`.
        extra: Further settings of the connector.
    """
    module, _, name = connector.partition(":")
    transfer = {
        "kv_connector": name,
        "kv_connector_module_path": module,
        "kv_role": "kv_producer",
        "kv_connector_extra_config": extra,
    }
    return {
        "kv_transfer_config": transfer,
        "additional_config": {LAYERS: list(layers)},
        "scheduler_cls": "cocal.engines.states_scheduler.reading",
        "worker_cls": "cocal.engines.states_worker.StatesWorker",
    }


def asking(prompt: int = 0, every: int = 0, below: float | None = None) -> dict[str, Any]:
    """The `extra_args` of the sampling parameters of a request whose response is to be read.

    Args:
        prompt: Number of tokens of the prompt proper, if the request's prompt ends with the response that is to be
            read; 0 to read the response that the request generates.
        every: Interval, in tokens, at which a response that the request generates is read while it grows; 0 for none.
        below: Confidence below which such a growing response is ended.
    """
    return {"kv_transfer_params": {_PROMPT: prompt} | ({EVERY: every, BELOW: below} if every else {})}


def asked(parameters: dict[str, Any] | None) -> tuple[int, int, float | None] | None:
    """The `prompt`, `every` and `below` of `asking`, from a request's `kv_transfer_params`, which a client may have
    sent by a route of vLLM's own; None if it is not to be read."""
    given: dict[str, Any] = {EVERY: 0, BELOW: None, _PROMPT: None} | (parameters or {})
    prompt, every, below = given[_PROMPT], given[EVERY], given[BELOW]
    whole = all(type(count) is int and 0 <= count <= LARGEST for count in (prompt, every))
    return (prompt, every, below) if whole and (below is None or type(below) in (int, float)) else None
