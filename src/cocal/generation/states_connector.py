"""The hidden states inside vLLM: a connector that pools those of each response as soon as it has ended.

The scheduler's process says which responses' last tokens are computed in a step; the worker pools their states, and
hands them over with the outputs of the step that follows, so that a GPU never waits for the processor.
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
from cocal.generation.states import STATES, asked

TOKENS = 1024
"""Number of tokens whose states are summed at a time, so that long responses need no memory of their own."""


class Row(NamedTuple):
    """A response whose last token is computed by the end of this step.

    Attributes:
        request: Id of its request.
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
class Found(KVConnectorWorkerMetadata):
    """What was read, by the request's id, which the worker tells the scheduler."""

    found: dict[str, Any]

    def aggregate(self, other: "Found") -> "Found":
        """That of two workers."""
        return Found(self.found | other.found)


def pooled(states: Tensor, blocks: Sequence[int], prompt: int, length: int, poolings: Sequence[str]) -> Tensor:
    """The pooled states of one response, float32 (layers, poolings, hidden), in the order of `poolings`.

    Args:
        states: vLLM's cache, (blocks, layers, tokens of a block, hidden), of any float format.
        blocks: Blocks of the request, in the order of its tokens.
        prompt: Number of prompt tokens, at least 1.
        length: Number of tokens of prompt and response; more than `prompt`.
        poolings: Names among "last", "mean" and "prompt"; see `cocal.features.forward.capture`.
    """
    size, table = states.shape[2], torch.tensor(blocks, device=states.device)

    def of(start: int, end: int) -> Tensor:
        """States of these tokens, float32 (tokens, layers, hidden)."""
        places = torch.arange(start, end, device=states.device)
        return states[table[places // size], :, places % size].float()

    parts = {
        "last": lambda: of(length - 1, length)[0],
        "mean": lambda: (
            sum(of(start, min(start + TOKENS, length)).sum(0) for start in range(prompt, length, TOKENS))
            / (length - prompt)
        ),
        "prompt": lambda: of(prompt - 1, prompt)[0],
    }
    return torch.stack([parts[name]() for name in poolings], dim=1)


class StatesConnector(KVConnectorBase_V1, SupportsHMA):
    """vLLM's KV connector that hands out the pooled states of responses, float32 (layers, poolings, hidden).

    `kv_connector_extra_config` names the `poolings`. Requests are read that `cocal.generation.states.asking` asks for.

    Raises:
        ContractError: if vLLM keeps no states.
    """

    name = STATES
    """Name of what is read in the `kv_transfer_params` of an output."""
    reads_cut = True
    """Whether a response is read that reached its length limit."""

    def __init__(self, vllm_config, role, kv_cache_config):
        super().__init__(vllm_config=vllm_config, role=role, kv_cache_config=kv_cache_config)
        groups = enumerate(kv_cache_config.kv_cache_groups)
        found = [k for k, group in groups if any("cache_only_layers" in name for name in group.layer_names)]
        self._group = found[0] if found else None
        self._growing: dict[str, int] = {}
        """Lengths of the prompt of requests whose responses have not ended."""
        self._waiting: dict[str, tuple[int, int]] = {}
        """Lengths of the prompt and of all tokens of responses that have not been computed to their end."""
        self._found: dict[str, Any] = {}
        """What was read of requests, None before that."""
        self._states: Tensor | None = None
        self._ready: list[tuple[list[str], Tensor, Any]] = []

    # beside the scheduler

    def on_new_request(self, request) -> None:
        """Note a request that is to be read."""
        prompt, length = asked(request.kv_transfer_params), request.num_prompt_tokens
        if prompt is None or prompt >= length:
            return
        self._found[request.request_id] = None
        if prompt:
            self._waiting[request.request_id] = prompt, length
        else:
            self._growing[request.request_id] = length

    def reads(self, request) -> bool:
        """Whether a response that has just ended is yet to be read."""
        if (prompt := self._growing.pop(request.request_id, None)) is not None:
            if not (self.reads_cut or request.status.name == "FINISHED_STOPPED"):
                return False
            self._waiting[request.request_id] = prompt, request.num_tokens
        return request.request_id in self._found and not self.has_read(request)

    def has_read(self, request) -> bool:
        """Whether the worker has told what it read."""
        return self._found.get(request.request_id) is not None

    def build_connector_meta(self, scheduler_output) -> Ending:
        """The responses whose last token is computed by this step. Preempted ones are computed again from the start."""
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
        """Take what the worker has read; that of requests that were aborted meanwhile is dropped."""
        if told := connector_output.kv_connector_worker_meta:
            self._found |= {request: one for request, one in told.found.items() if request in self._found}

    def request_finished_all_groups(self, request, block_ids) -> tuple[bool, dict[str, Any] | None]:
        """Hand out what was read; the blocks may be freed."""
        self._growing.pop(request.request_id, None)
        self._waiting.pop(request.request_id, None)
        found = self._found.pop(request.request_id, None)
        return False, None if found is None else {self.name: found}

    def get_num_new_matched_tokens(self, request, num_computed_tokens) -> tuple[int, bool]:
        """Nothing is loaded from elsewhere."""
        return 0, False

    def update_state_after_alloc(self, request, blocks, num_external_tokens) -> None:
        """Nothing is loaded from elsewhere."""

    # beside the model

    def register_kv_caches(self, kv_caches) -> None:
        """Find the cache of states; of several workers that share a model, the first has it."""
        from vllm.config import get_layers_from_vllm_config
        from vllm.model_executor.models.extract_hidden_states import CacheOnlyAttentionLayer

        if get_tensor_model_parallel_rank():
            return
        names = [*get_layers_from_vllm_config(self._vllm_config, CacheOnlyAttentionLayer, list(kv_caches))]
        if not names:
            raise ContractError("vLLM keeps no hidden states here; start it without pipeline stages")
        self._states = kv_caches[names[0]]
        self.load(self._vllm_config.kv_transfer_config.kv_connector_extra_config)

    def load(self, extra: dict[str, Any]) -> None:
        """Load what reading needs, from the connector's settings."""
        self.poolings = tuple(extra["poolings"])

    def read(self, states: Tensor) -> Tensor:
        """What is told of n responses, of shape (n, ...), from their states, float32 (n, layers, poolings, hidden)."""
        return states

    def told(self, found: Tensor) -> Sequence[Any]:
        """What was read of each response, in the form in which the processes of the engine pass it on."""
        return found.numpy()

    @torch.inference_mode()
    def wait_for_save(self) -> None:
        """Read the responses that have ended, whose states are in the cache now."""
        rows = self._get_connector_metadata().rows
        if not rows or self._states is None:
            return
        states = [pooled(self._states, row.blocks, row.prompt, row.length, self.poolings) for row in rows]
        found, copied = self.read(torch.stack(states)), None
        if found.is_cuda:
            on_gpu, found = found, torch.empty(found.shape, pin_memory=True)
            found.copy_(on_gpu, non_blocking=True)
            copied = torch.cuda.Event()
            copied.record()
        self._ready.append(([row.request for row in rows], found, copied))

    def build_connector_worker_meta(self) -> Found | None:
        """What was read since the last call."""
        ready, self._ready = self._ready, []
        told = {}
        for requests, found, copied in ready:
            if copied is not None:
                copied.synchronize()
            told |= dict(zip(requests, self.told(found), strict=True))
        return Found(told) if told else None

    def start_load_kv(self, forward_context, **kwargs) -> None:
        """Nothing is loaded from elsewhere."""

    def wait_for_layer_load(self, layer_name) -> None:
        """Nothing is loaded from elsewhere."""

    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **kwargs) -> None:
        """The states lie in vLLM's cache already."""
