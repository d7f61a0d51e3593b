"""vLLM's worker, whose model hands the states of chosen blocks to the connector in every step, and the
log-probabilities of tokens if the connector reads them.

These come from the raw logits at temperature 1, whatever the sampling, as `cocal fit` and `cocal score` compute them.
vLLM's own do, too, but from logits in which a grammar has already forbidden tokens.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from vllm.distributed.kv_transfer import get_kv_transfer_group, has_kv_transfer_group
from vllm.platforms import current_platform
from vllm.utils.import_utils import resolve_obj_by_qualname

from cocal.engines.states import FIRST_RUNNER, LAYERS
from cocal.errors import ConfigError

if TYPE_CHECKING:
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

_TOKENS_PER_SLICE = 256
"""Tokens of a prompt whose logits are computed at once."""
_WORKER = "vllm.v1.worker.cpu_worker.CPUWorker" if current_platform.is_cpu() else "vllm.v1.worker.gpu_worker.Worker"


class _Returning(GPUModelRunner if TYPE_CHECKING else object):
    """vLLM's first model runner, made to return states, which it does only for a configuration that names EAGLE-3."""

    def _get_eagle3_aux_layers_from_config(self) -> tuple[int, ...]:
        # k is the state after k blocks, so that the zero-based block l is l + 1
        return tuple(layer + 1 for layer in self.vllm_config.additional_config[LAYERS])

    _given: Tensor | None = None
    """Log-probabilities of the vocabulary at the last position of each request, until a token is drawn."""

    def _model_forward(self, *arguments, **options):
        output = super()._model_forward(*arguments, **options)
        if has_kv_transfer_group() and get_kv_transfer_group().has_connector_metadata():  # no step of a warm-up
            batch, count = self.input_batch, self.input_batch.num_reqs
            bounds = self.query_start_loc.np[: count + 1].astype(np.int64)
            starts = batch.num_computed_tokens_cpu[:count].astype(np.int64)

            def logprobs(rows: slice) -> Tensor:
                last, following = output[0][rows], self.input_ids.gpu[rows.start + 1 : rows.stop + 1]
                parts = zip(last.split(_TOKENS_PER_SLICE), following.split(_TOKENS_PER_SLICE), strict=True)
                return torch.cat([_chosen(_logprobs(self.model.compute_logits(states)), ids) for states, ids in parts])

            get_kv_transfer_group().take(output[1], batch.req_ids[:count], bounds, starts, logprobs)
        return output

    @torch.inference_mode()
    def sample_tokens(self, *arguments, **options):
        if self.execute_model_state is not None and get_kv_transfer_group().reads_tokens:
            self._given = _logprobs(self.execute_model_state.logits)  # before the logits are changed in place
        return super().sample_tokens(*arguments, **options)

    def _sample(self, *arguments, **options):
        output = super()._sample(*arguments, **options)
        if self._given is not None:
            following, count = output.sampled_token_ids[:, 0].long(), self.input_batch.num_reqs
            # what is drawn within a prompt, or what is computed again, is thrown away: the token there is known
            if (known := np.flatnonzero(self.discard_request_mask.np[:count])).size:
                ids = self.input_batch.token_ids_cpu[known, self.optimistic_seq_lens_cpu.numpy()[known]]
                places, ids = (torch.from_numpy(array).to(following.device) for array in (known, ids.astype(np.int64)))
                following[places] = ids
            get_kv_transfer_group().drawn(_chosen(self._given, following))
            self._given = None
        return output


def _logprobs(logits: Tensor) -> Tensor:
    return logits.log_softmax(-1, dtype=torch.float32)


def _chosen(logprobs: Tensor, ids: Tensor) -> Tensor:
    return logprobs.gather(1, ids[:, None].long())[:, 0]


class StatesWorker(resolve_obj_by_qualname(_WORKER)):
    """The platform's worker, whose model runner returns states. vLLM's untested second runner is a ConfigError."""

    def init_device(self) -> None:
        if self.use_v2_model_runner:
            (name, value), *_ = FIRST_RUNNER.items()
            raise ConfigError(f"vLLM's second model runner has not been tried with a companion; set {name}={value}")
        super().init_device()
        runner = self.model_runner
        runner.__class__ = type(type(runner).__name__, (_Returning, type(runner)), {})
        runner.use_aux_hidden_state_outputs = True
