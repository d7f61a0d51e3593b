"""vLLM's scheduler without the second token of every step.

`extract_hidden_states` is built as a speculative method, whose draft is the token that was just sampled: each step of
a sequence then computes two tokens, and throws the second away. Without drafts a step computes one, and the states are
kept all the same.
"""

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler


class _NoDrafts:
    """Forgets the drafts of every request."""

    def _update_after_schedule(self, scheduler_output) -> None:
        super()._update_after_schedule(scheduler_output)
        for request in scheduler_output.num_scheduled_tokens:
            self.requests[request].spec_token_ids = []

    def update_draft_token_ids(self, draft_token_ids) -> None:
        """See vLLM's scheduler; drafts are not taken."""


class _Synchronous(_NoDrafts, Scheduler):
    pass


class _Asynchronous(_NoDrafts, AsyncScheduler):
    pass


def without_drafts(*, vllm_config, **options) -> Scheduler:
    """The scheduler that fits vLLM's configuration (its flag `--scheduler-cls` names this function)."""
    chosen = _Asynchronous if vllm_config.scheduler_config.async_scheduling else _Synchronous
    return chosen(vllm_config=vllm_config, **options)
