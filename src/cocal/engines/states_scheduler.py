"""A scheduler for vLLM that also computes the hidden state of a response's last token.

The companion reads that state, and vLLM alone never computes it, since nothing follows the token that ends a response.
A response that the connector reads (`cocal.engines.states_connector`) therefore stays in the engine for the step or two
until its states have been read. What it generates meanwhile is thrown away, and its last output waits, so that the
engine's client sees what it would see without a companion.
"""

from typing import TYPE_CHECKING, NamedTuple

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreOutput
from vllm.v1.request import Request, RequestStatus

from cocal.engines.states import BELOW, TRAJECTORY

PATIENCE = 16
"""Number of tokens that a response may generate after its end before it is given up and finishes without a result."""


class Ended(NamedTuple):
    """How a response ended whose states are still to be read.

    Attributes:
        status, reason: vLLM's status and `stop_reason` of the request.
        tokens: Number of tokens of prompt and response.
    """

    status: RequestStatus
    reason: int | str | None
    tokens: int


class _Reading(Scheduler if TYPE_CHECKING else object):
    """Keeps requests that have ended until their states have been read."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._ended: dict[str, Ended] = {}
        self._outputs: dict[str, EngineCoreOutput] = {}
        """The last outputs of requests that have ended."""

    def update_from_output(self, scheduler_output, model_runner_output):
        """See vLLM's scheduler. What the connector has read comes first, so that a request can end with it."""
        if model_runner_output.kv_connector_output:
            self.connector.update_connector_output(model_runner_output.kv_connector_output)
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        if self.connector.fresh:
            for output in (output for of_client in outputs.values() for output in of_client.outputs):
                if output.finish_reason is None and (fresh := self.connector.fresh.get(output.request_id)):
                    output.kv_transfer_params = {TRAJECTORY: fresh}
            self.connector.fresh = {}
        if self._ended:
            for of_client in outputs.values():
                of_client.outputs = [output for output in map(self._held, of_client.outputs) if output is not None]
            for request in self._ended.keys() - self.requests.keys():  # they have finished, or were aborted
                del self._ended[request]
                self._outputs.pop(request, None)
        return outputs

    def _held(self, output: EngineCoreOutput) -> EngineCoreOutput | None:
        """An output as the client gets it: the last one of a request comes with the end of the request, not before."""
        request = output.request_id
        if request not in self._ended:
            return output
        if output.finish_reason is None:
            self._outputs[request] = output
            return None
        if last := self._outputs.get(request):
            last.finish_reason, last.stop_reason = output.finish_reason, output.stop_reason
            last.kv_transfer_params = output.kv_transfer_params
            return last
        return output

    def _update_request_with_output(self, request: Request, new_token_ids: list[int], *arguments, **options):
        before, ended = request.status, self._ended.get(request.request_id)
        tokens, stopped = super()._update_request_with_output(request, new_token_ids, *arguments, **options)
        if ended is None and not stopped and self.connector.stops(request):
            # as if it were truncated, so that the text keeps its last token
            request.status, request.stop_reason, stopped = RequestStatus.FINISHED_LENGTH_CAPPED, BELOW, True
        room = request.num_tokens < self.max_model_len
        if ended is None:
            if not (stopped and room and self.connector.reads(request)):
                return tokens, stopped
            self._ended[request.request_id] = Ended(request.status, request.stop_reason, request.num_tokens)
        elif self.connector.has_read(request) or not room or request.num_tokens > ended.tokens + PATIENCE:
            request.status, request.stop_reason = ended.status, ended.reason
            return [], True
        else:
            tokens = []
        request.status = before
        return tokens, False


class _Synchronous(_Reading, Scheduler):
    pass


class _Asynchronous(_Reading, AsyncScheduler):
    pass


def reading(*, vllm_config, **options) -> Scheduler:
    """The scheduler that fits vLLM's configuration (its flag `--scheduler-cls` names this function)."""
    chosen = _Asynchronous if vllm_config.scheduler_config.async_scheduling else _Synchronous
    return chosen(vllm_config=vllm_config, **options)
