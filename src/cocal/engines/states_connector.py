"""The hidden states inside vLLM: a connector that sums those of each response as they are computed.

The scheduler's process says which requests are followed, and where their responses have ended; the worker keeps their
sums (`cocal.engines.states_sums`), and reports the result once the last token of a response is computed. A response
that is given in the prompt of a request might lie in the prefix cache, so such a request does not read that cache.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorWorkerMetadata,
    SupportsHMA,
)
from vllm.distributed.parallel_state import get_tensor_model_parallel_rank

from cocal.engines.states import BELOW, STATES, TRAJECTORY, asked
from cocal.engines.states_sums import Computed, Sums


@dataclass
class Step(KVConnectorMetadata):
    """What the scheduler tells the worker in a step."""

    begun: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The number of prompt tokens of each new request, and the interval at which its growing response is read, or 0."""
    ended: dict[str, int] = field(default_factory=dict)
    """For each request whose response has ended, the number of tokens of prompt and response."""
    gone: list[str] = field(default_factory=list)


@dataclass
class ReadStates(KVConnectorWorkerMetadata):
    """The results by request id: of whole responses, and of growing ones with their number of tokens."""

    found: dict[str, Any]
    grown: dict[str, tuple[int, Any]] = field(default_factory=dict)

    def aggregate(self, other: "ReadStates") -> "ReadStates":
        return ReadStates(self.found | other.found, self.grown | other.grown)


class StatesConnector(KVConnectorBase_V1, SupportsHMA):
    """vLLM's KV connector that hands out the pooled states of responses, float32 (layers, poolings, hidden).

    `kv_connector_extra_config` names the `poolings`. Only requests made by `cocal.engines.states.asking` are read.
    """

    name = STATES
    """Name of the result in the `kv_transfer_params` of an output."""
    reads_tokens = False
    """Whether token statistics are read, too."""

    def __init__(self, vllm_config, role, kv_cache_config):
        super().__init__(vllm_config=vllm_config, role=role, kv_cache_config=kv_cache_config)
        self._told = Step()
        """What the worker is told in the next step."""
        self._growing: set[str] = set()
        """Requests whose responses have not ended."""
        self._found: dict[str, Any] = {}
        """The result of each request; None until it is read."""
        self._trajectories: dict[str, dict[int, Any]] = {}
        """The results of growing responses by their number of tokens, for each request that asks for them."""
        self.fresh: dict[str, tuple[int, Any]] = {}
        """The latest result of each response that has not ended, with its number of tokens."""
        self._sums: Sums | None = None
        self._computed: Computed | None = None
        self._ready: list[tuple[list[str], list[tuple[str, int]], Tensor, Any]] = []

    # in the scheduler's process

    def on_new_request(self, request) -> None:
        """Follow a request that is to be read."""
        wishes, length = asked(request.kv_transfer_params), request.num_prompt_tokens
        if wishes is None or wishes[0] >= length:
            return
        prompt, every, _ = wishes
        self._found[request.request_id] = None
        self._told.begun[request.request_id] = prompt or length, 0 if prompt else every
        if prompt:
            self._told.ended[request.request_id] = length
            request.skip_reading_prefix_cache = True
        else:
            self._growing.add(request.request_id)

    def stops(self, request) -> bool:
        """Whether the value just read ends this growing response."""
        below, name = (request.kv_transfer_params or {}).get(BELOW), request.request_id
        return below is not None and name in self.fresh and self.fresh[name][1] < below

    def reads(self, request) -> bool:
        """Whether a response that has just ended is yet to be read."""
        name = request.request_id
        if name in self._growing:
            self._growing.remove(name)
            self._told.ended[name] = request.num_tokens
        return name in self._found and not self.has_read(request)

    def has_read(self, request) -> bool:
        """Whether the worker has reported the result."""
        return self._found.get(request.request_id) is not None

    def build_connector_meta(self, scheduler_output) -> Step:
        told, self._told = self._told, Step()
        return told

    def update_connector_output(self, connector_output) -> None:
        """Take what the worker has read, which may come twice; results of aborted requests are dropped."""
        if told := connector_output.kv_connector_worker_meta:
            self._found |= {request: value for request, value in told.found.items() if request in self._found}
            self.fresh = {request: latest for request, latest in told.grown.items() if request in self._growing}
            for request, (tokens, value) in self.fresh.items():
                self._trajectories.setdefault(request, {})[tokens] = value

    def request_finished_all_groups(self, request, block_ids) -> tuple[bool, dict[str, Any] | None]:
        """Hand out what was read; the blocks may be freed."""
        self._growing.discard(request.request_id)
        if request.request_id in self._found:
            self._told.gone.append(request.request_id)
        value = self._found.pop(request.request_id, None)
        told = {} if value is None else {self.name: value}
        if trajectory := self._trajectories.pop(request.request_id, None):
            told[TRAJECTORY] = [*trajectory.values()]
        return False, told or None

    def get_num_new_matched_tokens(self, request, num_computed_tokens) -> tuple[int, bool]:
        return 0, False  # nothing is loaded from elsewhere

    def update_state_after_alloc(self, request, blocks, num_external_tokens) -> None:
        pass

    # in the worker's process

    def register_kv_caches(self, kv_caches) -> None:
        """Load what reading needs. Workers that share a model have the same states, which only the first one reads; the
        others take part if token statistics are read, since they compute logits together."""
        device = torch.device(self._vllm_config.device_config.device)
        self.load(self._vllm_config.kv_transfer_config.kv_connector_extra_config, device)
        self._is_first = get_tensor_model_parallel_rank() == 0
        if self._is_first or self.reads_tokens:
            self._sums = Sums(device, "prompt" in self.poolings, self.reads_tokens)

    def load(self, extra: dict[str, Any], device: torch.device) -> None:
        self.poolings = tuple(extra["poolings"])

    def read(self, states: Tensor, tokens: Tensor | None) -> Tensor:
        """The results of n responses, of shape (n, ...), from their states, float32 (n, layers, poolings, hidden), and
        their token statistics, float32 (n, 3), if these are read."""
        return states

    def told(self, rows: Tensor) -> Sequence[Any] | np.ndarray:
        """The result of each response, in the form in which the engine's processes exchange it."""
        return rows.numpy()

    def so_far(self, row: Any) -> Any:
        """What is reported of a growing response, from its result."""
        return row

    def take(self, *computed: Any) -> None:
        """Take what the model has computed in this step; see `Computed`."""
        self._computed = Computed(*computed)

    def drawn(self, logprobs: Tensor) -> None:
        """See `Sums.drawn`."""
        if self._sums is not None:
            self._sums.drawn(logprobs)

    @torch.inference_mode()
    def wait_for_save(self) -> None:
        """Add the states of this step, if it computes any, and read the responses that are complete."""
        computed, self._computed = self._computed, None
        if self._sums is None:
            return
        step = self._get_connector_metadata()
        self._sums.follow(step.begun, step.ended, step.gone)
        if computed:
            self._sums.add(computed)
        due = self._sums.due if computed else []
        if ((whole := self._sums.whole()) or due) and self._is_first:
            names = [*whole, *(name for name, _ in due)]
            tokens = self._sums.tokens(names) if self.reads_tokens else None
            self._hand_over(whole, due, self.read(self._sums.pooled(names, self.poolings), tokens))

    def _hand_over(self, whole: list[str], due: list[tuple[str, int]], rows: Tensor) -> None:
        copied = None
        if rows.is_cuda:  # the copy to the processor is not waited for
            on_gpu, rows = rows, torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
            rows.copy_(on_gpu, non_blocking=True)
            copied = torch.cuda.Event()
            copied.record()
        self._ready.append((whole, due, rows, copied))

    def build_connector_worker_meta(self) -> ReadStates | None:
        """The results that have reached the host, so that a GPU never waits; a later step hands over the rest."""
        told = ReadStates({})
        while self._ready and ((copied := self._ready[0][-1]) is None or copied.query()):
            whole, due, rows, _ = self._ready.pop(0)
            values = self.told(rows)
            told.found |= dict(zip(whole, values, strict=False))
            of_due = zip(due, values[len(whole) :], strict=True)
            told.grown |= {name: (tokens, self.so_far(row)) for (name, tokens), row in of_due}
        return told if told.found or told.grown else None

    def start_load_kv(self, forward_context, **kwargs) -> None:
        pass

    def wait_for_layer_load(self, layer_name) -> None:
        pass

    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **kwargs) -> None:
        pass  # keys and values stay where they are
