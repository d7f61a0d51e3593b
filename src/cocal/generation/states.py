"""How vLLM is asked for hidden states: its settings, and the parameters of a request whose response is to be read.

vLLM keeps the states of chosen blocks for every token beside its keys and values (its method `extract_hidden_states`),
in the same blocks of its cache, so that chunked prefill, prefix caching and preemption hold for both. A connector pools
those of a response as soon as it has ended, and they come with its output. So they cost no pass of their own.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

STATES = "cocal_states"
"""Name of the pooled states in the `kv_transfer_params` of an output."""
TOP_P = 1 - 1e-9
"""Where it keeps states, vLLM's build for processors dies of a request with top_k and without a top_p below 1. This one
keeps every token that has a probability."""
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
    extraction = {
        "method": "extract_hidden_states",
        "num_speculative_tokens": 1,
        # k is the state after k blocks, so that the zero-based block l is l + 1
        "draft_model_config": {"hf_config": {"eagle_aux_hidden_state_layer_ids": [layer + 1 for layer in layers]}},
    }
    transfer = {
        "kv_connector": name,
        "kv_connector_module_path": module,
        "kv_role": "kv_producer",
        "kv_connector_extra_config": extra,
    }
    return {
        "speculative_config": extraction,
        "kv_transfer_config": transfer,
        "scheduler_cls": "cocal.generation.states_scheduler.reading",
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
