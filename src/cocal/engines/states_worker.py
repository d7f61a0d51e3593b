"""vLLM's worker, whose model returns the states of chosen blocks, which are handed to the connector in every step."""

from typing import TYPE_CHECKING

import numpy as np
from vllm.distributed.kv_transfer import get_kv_transfer_group, has_kv_transfer_group
from vllm.platforms import current_platform
from vllm.utils.import_utils import resolve_obj_by_qualname

from cocal.engines.states import FIRST_RUNNER, LAYERS
from cocal.errors import ConfigError

if TYPE_CHECKING:
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

_WORKER = "vllm.v1.worker.cpu_worker.CPUWorker" if current_platform.is_cpu() else "vllm.v1.worker.gpu_worker.Worker"


class _Returning(GPUModelRunner if TYPE_CHECKING else object):
    """vLLM's first model runner. It can return states for EAGLE-3 alone, which its configuration would have to name."""

    def _get_eagle3_aux_layers_from_config(self) -> tuple[int, ...]:
        # k is the state after k blocks, so that the zero-based block l is l + 1
        return tuple(layer + 1 for layer in self.vllm_config.additional_config[LAYERS])

    def _model_forward(self, *arguments, **options):
        output = super()._model_forward(*arguments, **options)
        if has_kv_transfer_group() and get_kv_transfer_group().has_connector_metadata():  # no step of a warm-up
            batch, count = self.input_batch, self.input_batch.num_reqs
            bounds = self.query_start_loc.np[: count + 1].astype(np.int64)
            starts = batch.num_computed_tokens_cpu[:count].astype(np.int64)
            get_kv_transfer_group().take(output[1], batch.req_ids[:count], bounds, starts)
        return output


class StatesWorker(resolve_obj_by_qualname(_WORKER)):
    """The platform's worker, whose model runner returns states. vLLM's second one, with which nobody has tried this, is
    a ConfigError."""

    def init_device(self) -> None:
        if self.use_v2_model_runner:
            (name, value), *_ = FIRST_RUNNER.items()
            raise ConfigError(f"vLLM's second model runner has not been tried with a companion; set {name}={value}")
        super().init_device()
        runner = self.model_runner
        runner.__class__ = type(type(runner).__name__, (_Returning, type(runner)), {})
        runner.use_aux_hidden_state_outputs = True
