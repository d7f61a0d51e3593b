"""Confidences from a running vLLM engine, whose connector reads the responses as they end.

A new response is read in the request that generates it. An existing one takes a request of its own: prompt and response
are its prompt, and the token that it generates is thrown away.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from cocal.companion.settings import Target
from cocal.engines.states import BELOW, TRAJECTORY, asking
from cocal.models.text import Tokens

CONFIDENCES = "cocal_confidences"
"""Name of the confidences, one for each member, in the `kv_transfer_params` of an output."""
CUT = "the response was cut at the length limit, so that this is the confidence of its states so far"
NO_END = "the response does not end with an end-of-sequence token, so that this is the confidence of its states so far"
STOPPED = "a stop string or token ended the response, so that this is the confidence of its states so far"
UNSURE = "the confidence fell below the threshold of the request, which ended the response"
OTHER_MODE = "the chat is in another mode of the template than those that the companion was fitted on"
NO_ROOM = "prompt and response fill the context, and the state of the last token needs room for one more"
NOT_FOLLOWED = "responses of beam search or of an adapter are not scored"
REPEATED = "the response was ended since it repeated itself, so that this is the confidence of its states so far"
STEERED = "the request says which tokens may be drawn, so that the answer is not the model's own"
FAILED = "the engine gave no confidence for this response; its log says why"


class Confidence(NamedTuple):
    """The confidence in one response."""

    value: float | None
    """From 0 to 1, or None."""
    reason: str | None = None
    """Why there is no value, or why the companion's card does not speak of such a response."""
    members: Mapping[str, float] = {}
    """The confidence of each member by its target and seed, such as "binary-42"; empty if there is none."""
    trajectory: Mapping[str, Any] | None = None
    """The trajectory of the confidence, as `cocal score --every` writes it; None if it was not asked for."""


@dataclass(frozen=True)
class Scorer:
    """Turns what an engine's connector has read into confidences."""

    engine: Any
    """vLLM's asynchronous client of an engine with the companion's connector."""
    members: Sequence[tuple[Target, int]]
    """Target and seed of each member, in the order of the companion."""
    target: Target
    """The target whose members' mean is the confidence."""
    ends: frozenset[int]
    """Token ids that end a response."""
    longest: int
    """Number of tokens that the engine's context holds."""

    async def score(self, prompt: Tokens, response: Tokens, unended: str = NO_END) -> Confidence:
        """The confidence in an existing response, by token ids; `unended` is the reason if it has no end token."""
        if not response:
            return Confidence(None, NO_END)
        if len(prompt) + len(response) >= self.longest:
            return Confidence(None, NO_ROOM)
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        parameters = SamplingParams(
            max_tokens=1,
            temperature=0,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            extra_args=asking(len(prompt)),
        )
        given, last = {"prompt_token_ids": [*prompt, *response]}, None
        try:
            async for output in self.engine.generate(given, parameters, f"confidence-{uuid4().hex}"):
                last = output
        except Exception:  # whatever goes wrong in the engine, the other responses have their confidences
            logging.exception("A response could not be scored.")
        return self.of(last, None if response[-1] in self.ends else unended)

    async def generated(self, output: Any, prompt: Tokens, response: Tokens) -> Confidence:
        """The confidence of a response that the engine has generated, by vLLM's last output of a request with one
        choice and the token ids of prompt and response."""
        (reply,) = output.outputs
        if reply.finish_reason == "length" and reply.stop_reason == BELOW:
            return self.of(output, UNSURE)
        cut = {"length": CUT, "repetition": REPEATED}.get(reply.finish_reason)
        if cut is None and isinstance(reply.stop_reason, str):  # found in the text, of which the engine knows nothing
            return await self.score(prompt, response, STOPPED)
        if len(prompt) + len(response) >= self.longest:
            return Confidence(None, NO_ROOM)
        return self.of(output, cut or (None if response and response[-1] in self.ends else STOPPED))

    def of(self, output: Any, reason: str | None = None) -> Confidence:
        """The confidence in an engine's output, or `FAILED` if there is none; `reason` is attached to a value."""
        values = output and (output.kv_transfer_params or {}).get(CONFIDENCES)
        if not values or not np.isfinite(values).all():  # the states of a model may overflow in its precision
            return Confidence(None, FAILED)
        chosen = [value for (target, _), value in zip(self.members, values, strict=True) if target == self.target]
        names = [f"{target}-{seed}" for target, seed in self.members]
        return Confidence(float(np.mean(chosen)), reason, dict(zip(names, values, strict=True)))


class Recorder:
    """The confidences in the responses that the engine generates for one call of the API.

    Args:
        reason: Attached to every confidence with a value that has no reason of its own.
        every, below: What is asked of growing responses (`cocal.engines.states.asking`).
    """

    def __init__(self, scorer: Scorer, reason: str | None = None, every: int = 0, below: float | None = None):
        self._scorer, self._reason = scorer, reason
        self.asking = asking(every=every, below=below)
        self.every = every
        self.grown: dict[int, tuple[int, float]] = {}
        """The latest confidence in each growing choice, with its number of tokens, until somebody takes it."""
        self._confidences: dict[int, Confidence] = {}
        self._choices = 0

    def places(self, count: int) -> int:
        """Reserve indices for this number of choices to the next prompt, and return the first one."""
        self._choices += count
        return self._choices - count

    async def follow(self, outputs: AsyncGenerator, index: int) -> AsyncGenerator:
        """The outputs of an engine for one choice of this index, unchanged."""
        prompt, response = [], []
        async with aclosing(outputs):
            async for output in outputs:
                prompt = prompt or output.prompt_token_ids
                (choice,) = output.outputs
                response += choice.token_ids
                if choice.finish_reason is not None:
                    trajectory = [_finite(value) for value in (output.kv_transfer_params or {}).get(TRAJECTORY, ())]
                    confidence = await self._scorer.generated(output, prompt, response)
                    if self.every:
                        values = {"every": self.every, "tokens": len(response), "values": trajectory}
                        confidence = confidence._replace(trajectory=values)
                    self._confidences[index] = confidence
                yield output

    async def growing(self, outputs: AsyncGenerator, first: int) -> AsyncGenerator:
        """The outputs of one prompt's choices, the first of which has this index, as the API takes them. What was read
        of a growing choice is known from here on; before, an output may still wait behind those of other choices."""
        async with aclosing(outputs):
            async for output in outputs:
                for choice in output.outputs:
                    trajectory = (output.kv_transfer_params or {}).get(TRAJECTORY)
                    if choice.finish_reason is None and trajectory and _finite(trajectory[1]) is not None:
                        self.grown[first + choice.index] = trajectory
                yield output

    def confidence(self, index: int | None = None) -> Confidence:
        """The confidence in one choice, or in the last one."""
        known = self._confidences.get(self._choices - 1 if index is None else index, Confidence(None, NOT_FOLLOWED))
        return known._replace(reason=known.reason or self._reason)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


RECORDER: ContextVar[Recorder | None] = ContextVar("recorder", default=None)
"""The recorder of the call of the API that is being answered."""


class FollowedEngine:
    """vLLM's engine client, whose generations the recorder of the call follows; all else is the client's own.

    What the connector has read comes with a request, so each of several choices is a request of its own.
    """

    def __init__(self, engine: Any):
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def generate(self, prompt: Any, sampling_params: Any, request_id: str, **options: Any) -> AsyncIterator:
        recorder = RECORDER.get()
        if recorder is None or options.get("lora_request") is not None:
            return self._engine.generate(prompt, sampling_params, request_id, **options)
        count = sampling_params.n
        first = recorder.places(count)

        def choice(k: int) -> AsyncGenerator:
            own = copy(sampling_params)
            own.n, own.extra_args = 1, (own.extra_args or {}) | recorder.asking
            if own.seed is not None:
                own.seed += k
            name = f"{k}_{request_id}" if count > 1 else request_id
            return recorder.follow(self._engine.generate(prompt, own, name, **options), first + k)

        if count == 1:
            outputs = choice(0)
        else:
            whole = sampling_params.output_kind.name == "FINAL_ONLY"
            outputs = _together([choice(k) for k in range(count)], whole)
        return recorder.growing(outputs, first) if recorder.every else outputs


async def _together(choices: Sequence[AsyncGenerator], whole: bool) -> AsyncGenerator:
    """The outputs of all choices as they come, or one output with all of them, as vLLM gives those of one request."""
    from vllm.utils.async_utils import merge_async_iterators

    ended = {}
    async with aclosing(merge_async_iterators(*choices)) as outputs:
        async for k, output in outputs:
            output.outputs[0].index = k
            ended[k] = output
            if not whole:
                yield output
    if whole:
        ended[0].outputs = [ended[k].outputs[0] for k in range(len(choices))]
        yield ended[0]
