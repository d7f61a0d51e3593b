"""The companion inside vLLM: it reads the states that the engine has computed and turns them into confidences.

vLLM keeps the states of one block for every token beside its keys and values (its method `extract_hidden_states`), in
the same blocks of the cache, so that chunked prefill, prefix caching and preemption hold for both. A request that
carries `PROMPT` in its `kv_transfer_params` is scored as soon as its last token has been computed, and its output has
the confidences of all members in `kv_transfer_params`.

The scheduler's process says which requests end in a step; the worker pools their states, applies the companion, and
hands the confidences over with the outputs of the step that follows, so that a GPU never waits for the processor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorWorkerMetadata,
    SupportsHMA,
)
from vllm.distributed.parallel_state import get_tensor_model_parallel_rank

from cocal.errors import ContractError
from cocal.own_policy import saved
from cocal.serving.scoring import CONFIDENCES, PROMPT

TOKENS = 1024
"""Number of tokens whose states are summed at a time, so that long responses need no memory of their own."""


class Row(NamedTuple):
    """A request whose last token is computed in this step.

    Attributes:
        request: Its id.
        prompt: Number of prompt tokens.
        length: Number of tokens of prompt and response.
        blocks: Its blocks in the cache of states.
    """

    request: str
    prompt: int
    length: int
    blocks: list[int]


@dataclass
class Ending(KVConnectorMetadata):
    """What the scheduler tells the worker in a step."""

    rows: list[Row] = field(default_factory=list)


@dataclass
class Scored(KVConnectorWorkerMetadata):
    """Confidences of all members by the request's id, which the worker tells the scheduler."""

    confidences: dict[str, list[float]]

    def aggregate(self, other: "Scored") -> "Scored":
        """Those of two workers."""
        return Scored(self.confidences | other.confidences)


def pooled(states: Tensor, blocks: Sequence[int], prompt: int, length: int, poolings: Sequence[str]) -> Tensor:
    """The pooled states of one response, float32 (poolings * hidden,), in the order of `poolings`.

    Args:
        states: vLLM's cache, (blocks, 1, tokens of a block, hidden), of any float format.
        blocks: Blocks of the request, in the order of its tokens.
        prompt: Number of prompt tokens, at least 1.
        length: Number of tokens of prompt and response; more than `prompt`.
        poolings: Names among "last", "mean" and "prompt"; see `cocal.features.forward.capture`.
    """
    size, table = states.shape[2], torch.tensor(blocks, device=states.device)

    def of(start: int, end: int) -> Tensor:
        places = torch.arange(start, end, device=states.device)
        return states[table[places // size], 0, places % size].float()

    parts = {
        "last": lambda: of(length - 1, length)[0],
        "mean": lambda: (
            sum(of(start, min(start + TOKENS, length)).sum(0) for start in range(prompt, length, TOKENS))
            / (length - prompt)
        ),
        "prompt": lambda: of(prompt - 1, prompt)[0],
    }
    return torch.cat([parts[name]() for name in poolings])


class CompanionConnector(KVConnectorBase_V1, SupportsHMA):
    """vLLM's KV connector that scores responses; see the module.

    `kv_connector_extra_config` names the companion's folder as `companion`.

    Raises:
        ContractError: if vLLM keeps no states, or they do not fit the companion.
    """

    def __init__(self, vllm_config, role, kv_cache_config):
        super().__init__(vllm_config=vllm_config, role=role, kv_cache_config=kv_cache_config)
        groups = enumerate(kv_cache_config.kv_cache_groups)
        found = [k for k, group in groups if any("cache_only_layers" in name for name in group.layer_names)]
        self._group = found[0] if found else None
        self._waiting: dict[str, tuple[int, int]] = {}
        """Lengths of the prompt and of all tokens of requests that have not been computed to their end."""
        self._scored: dict[str, list[float] | None] = {}
        """Confidences of the requests that are to be scored and have not finished."""
        self._states: Tensor | None = None
        self._ready: list[tuple[list[str], Tensor, Any]] = []

    # beside the scheduler

    def on_new_request(self, request) -> None:
        """Note a request that is to be scored. What is no number of prompt tokens asks for nothing."""
        prompt, length = (request.kv_transfer_params or {}).get(PROMPT), request.num_prompt_tokens
        if type(prompt) is int and 0 < prompt < length:
            self._waiting[request.request_id] = prompt, length
            self._scored[request.request_id] = None

    def build_connector_meta(self, scheduler_output) -> Ending:
        """The requests whose last token is computed in this step. Preempted ones are computed again from the start."""
        if not self._waiting:
            return Ending()
        old = scheduler_output.scheduled_cached_reqs
        computed = dict(zip(old.req_ids, old.num_computed_tokens, strict=True))
        computed |= {new.req_id: new.num_computed_tokens for new in scheduler_output.scheduled_new_reqs}
        ending = []
        for request in self._waiting.keys() & computed.keys():
            prompt, length = self._waiting[request]
            if computed[request] + scheduler_output.num_scheduled_tokens[request] >= length:
                blocks = scheduler_output.kv_connector_block_state.get_block_ids(request)[self._group]
                ending.append(Row(request, prompt, length, list(blocks)))
                del self._waiting[request]
        return Ending(ending)

    def update_connector_output(self, connector_output) -> None:
        """Take the worker's confidences; those of requests that were aborted meanwhile are dropped."""
        if found := connector_output.kv_connector_worker_meta:
            self._scored |= {request: one for request, one in found.confidences.items() if request in self._scored}

    def request_finished_all_groups(self, request, block_ids) -> tuple[bool, dict[str, Any] | None]:
        """Hand the confidences out; the blocks may be freed."""
        self._waiting.pop(request.request_id, None)
        found = self._scored.pop(request.request_id, None)
        return False, None if found is None else {CONFIDENCES: found}

    def get_num_new_matched_tokens(self, request, num_computed_tokens) -> tuple[int, bool]:
        """Nothing is loaded from elsewhere."""
        return 0, False

    def update_state_after_alloc(self, request, blocks, num_external_tokens) -> None:
        """Nothing is loaded from elsewhere."""

    # beside the model

    def register_kv_caches(self, kv_caches) -> None:
        """Find the cache of states and load the companion; of several workers that share a model, the first has it."""
        from vllm.config import get_layers_from_vllm_config
        from vllm.model_executor.models.extract_hidden_states import CacheOnlyAttentionLayer

        if get_tensor_model_parallel_rank():
            return
        names = [*get_layers_from_vllm_config(self._vllm_config, CacheOnlyAttentionLayer, list(kv_caches))]
        if not names:
            raise ContractError("vLLM keeps no hidden states here; start it by `cocal serve`, without pipeline stages")
        extra = self._vllm_config.kv_transfer_config.kv_connector_extra_config
        companions, self._about = saved.read(extra["companion"], {})
        self._states = kv_caches[names[0]]
        self._model = companions.to(self._states.device).model
        width = self._states.shape[3] * len(self._about.spec.poolings)
        if width != self._about.spec.inputs:
            raise ContractError(
                f"{extra['companion']}: the model's pooled states have width {width}, but the companion reads "
                f"{self._about.spec.inputs}; give the model that it was fitted for"
            )

    @torch.inference_mode()
    def wait_for_save(self) -> None:
        """Score the requests that end in this step, whose states are in the cache now."""
        rows = self._get_connector_metadata().rows
        if not rows or self._states is None:
            return
        poolings = self._about.spec.poolings
        features = torch.stack([pooled(self._states, row.blocks, row.prompt, row.length, poolings) for row in rows])
        if self._about.states == "bfloat16":
            features = features.bfloat16()
        found, copied = self._model(features).T.contiguous(), None
        if found.is_cuda:
            on_gpu, found = found, torch.empty(found.shape, pin_memory=True)
            found.copy_(on_gpu, non_blocking=True)
            copied = torch.cuda.Event()
            copied.record()
        self._ready.append(([row.request for row in rows], found, copied))

    def build_connector_worker_meta(self) -> Scored | None:
        """The confidences that were computed since the last call."""
        ready, self._ready = self._ready, []
        scored = {}
        for requests, found, copied in ready:
            if copied is not None:
                copied.synchronize()
            scored |= dict(zip(requests, found.tolist(), strict=True))
        return Scored(scored) if scored else None

    def start_load_kv(self, forward_context, **kwargs) -> None:
        """Nothing is loaded from elsewhere."""

    def wait_for_layer_load(self, layer_name) -> None:
        """Nothing is loaded from elsewhere."""

    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **kwargs) -> None:
        """The states lie in vLLM's cache already."""
