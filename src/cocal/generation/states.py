"""How vLLM is asked for hidden states: its settings, and the parameters of a request whose response is to be read.

vLLM's models can return the states of chosen blocks beside their output (the interface that EAGLE-3 uses). A connector
keeps the sum and the last of those of each response, and what was read of them comes with the response's output. So
they cost no pass of their own, and no room in vLLM's cache.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

STATES = "cocal_states"
"""Name of the pooled states in the `kv_transfer_params` of an output."""
LAYERS = "cocal_layers"
"""Name of the blocks in vLLM's `additional_config`, which keeps engines of other blocks apart in its compile cache."""
FIRST_RUNNER = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
"""What of the environment makes vLLM use the first of its two model runners, the one that gives states."""
_PROMPT = "cocal_prompt"


class Reading(NamedTuple):
    """Which states an engine keeps.

    Attributes:
        layers: Zero-based indices of the blocks, in ascending order.
        poolings: Names of the poolings; see `cocal.features.forward.capture`.
    """

    layers: Sequence[int]
    poolings: Sequence[str]


def engine_settings(layers: Sequence[int], connector: str, **extra: Any) -> dict[str, Any]:
    """vLLM's settings for an engine whose responses are read.

    Args:
        layers: Zero-based indices of the blocks, in ascending order.
        connector: Module and class of the connector, as in `cocal.generation.states_connector:StatesConnector`.
        extra: What the connector is told.
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
        "scheduler_cls": "cocal.generation.states_scheduler.reading",
        "worker_cls": "cocal.generation.states_worker.StatesWorker",
    }


def asking(prompt: int = 0) -> dict[str, Any]:
    """The `extra_args` of the sampling parameters of a request that is to be read.

    Args:
        prompt: Number of tokens of the prompt, if the request's prompt holds a response after it, which is read; 0 if
            the response that the request generates is read.
    """
    return {"kv_transfer_params": {_PROMPT: prompt}}


def asked(parameters: dict[str, Any] | None) -> int | None:
    """The `prompt` of `asking`, from a request's `kv_transfer_params`; None if it is not to be read."""
    prompt = (parameters or {}).get(_PROMPT)
    return prompt if type(prompt) is int and prompt >= 0 else None
