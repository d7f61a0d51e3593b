"""Confidences from a running vLLM engine, whose requests the connector scores.

A response that exists is one request: prompt and response are its prompt, and what it generates is thrown away. A new
response is two: the one that generates it, and this one, for which the cache still holds almost all states. The second
is needed because the engine never computes the state of the token that ends a response.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from cocal.config.evaluation import Target
from cocal.models.loading import read_vocabulary
from cocal.models.text import Tokens

PROMPT = "cocal_prompt"
"""Name of the number of prompt tokens in the `kv_transfer_params` of a request that is to be scored."""
CONFIDENCES = "cocal_confidences"
"""Name of the confidences, one for each member, in those of its output."""
STEPS = 3
"""Tokens that a scoring request generates: its confidences arrive with the second step after its last token."""
CUT = "the response was cut at the length limit, so that it has no end of sequence, whose state the companion reads"
NO_END = "the response does not end with an end-of-sequence token, whose state the companion reads"
NO_ROOM = f"prompt and response leave no room for the {STEPS} tokens that scoring takes in the context"
NOT_TEXT = "the prompt holds more than text"
NOT_FOLLOWED = "responses of beam search or of an adapter are not scored"
FAILED = "the engine gave no confidence for this response; its log says why"


class Verdict(NamedTuple):
    """The confidence of one response.

    Attributes:
        confidence: From 0 to 1, or None.
        reason: Why there is none.
        members: The confidence of each member by its target and seed, such as "binary-42"; empty if there is none.
    """

    confidence: float | None
    reason: str | None = None
    members: Mapping[str, float] = {}


class Reader(NamedTuple):
    """What of a policy its encoder needs (`cocal.own_policy.states.Encoder`), without its weights."""

    tokenizer: Any
    vocabulary: int
    ends: frozenset[int]

    @classmethod
    def of(cls, checkpoint: Path) -> "Reader":
        """That of a checkpoint, whose tokenizer may lack a chat template.

        Raises:
            ContractError: if the folder lacks files.
        """
        return cls(*read_vocabulary(checkpoint, plain=True))


@dataclass(frozen=True)
class Scorer:
    """Asks an engine for confidences.

    Attributes:
        engine: vLLM's asynchronous client of an engine with the companion's connector.
        members: Target and seed of each member, in the order of the companion.
        target: The target whose members' mean is the confidence.
        ends: Token ids that end a response.
        longest: Number of tokens that the engine's context holds.
    """

    engine: Any
    members: Sequence[tuple[Target, int]]
    target: Target
    ends: frozenset[int]
    longest: int

    async def score(self, prompt: Tokens, response: Tokens, finish: str = "stop", salt: str | None = None) -> Verdict:
        """The confidence of one response.

        Args:
            prompt: Token ids of the prompt.
            response: Those of the response, with the end token.
            finish: How it ended by the engine; "length" if it was cut.
            salt: The salt of the cached prefixes that the request may use, as its API calls it.
        """
        if finish == "length":
            return Verdict(None, CUT)
        if not response or response[-1] not in self.ends:
            return Verdict(None, NO_END)
        if len(prompt) + len(response) + STEPS > self.longest:
            return Verdict(None, NO_ROOM)
        found = await self._ask([*prompt, *response], len(prompt), salt)
        if found is None:
            return Verdict(None, FAILED)
        chosen = [one for (target, _), one in zip(self.members, found, strict=True) if target == self.target]
        names = [f"{target}-{seed}" for target, seed in self.members]
        return Verdict(float(np.mean(chosen)), None, dict(zip(names, found, strict=True)))

    async def _ask(self, tokens: list[int], prompt: int, salt: str | None) -> list[float] | None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        asked = SamplingParams(
            max_tokens=STEPS,
            temperature=0,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            extra_args={"kv_transfer_params": {PROMPT: prompt}},
        )
        given = {"prompt_token_ids": tokens} | ({"cache_salt": salt} if salt else {})
        try:
            async for output in self.engine.generate(given, asked, f"confidence-{uuid4().hex}"):
                if output.kv_transfer_params:
                    return output.kv_transfer_params.get(CONFIDENCES)
        except Exception:  # whatever befalls the engine, the answer itself is there
            logging.exception("A response could not be scored.")
        return None


class Recorder:
    """The responses that the engine generates for one call of the API, which are scored as soon as they end."""

    def __init__(self, scorer: Scorer):
        self._scorer = scorer
        self._tasks: dict[int, asyncio.Task[Verdict]] = {}
        self._choices = 0

    async def follow(self, outputs: AsyncIterator, first: int, deltas: bool, salt: str | None) -> AsyncIterator:
        """The outputs of an engine for one prompt, unchanged.

        Args:
            outputs: vLLM's request outputs.
            first: Index of the first choice.
            deltas: Whether an output has the new tokens alone.
            salt: See `Scorer.score`.
        """
        prompt, responses = None, defaultdict(list)
        async with aclosing(outputs):
            async for output in outputs:
                prompt = prompt or output.prompt_token_ids
                for one in output.outputs:
                    index = first + one.index
                    if not deltas:
                        responses[index].clear()
                    responses[index].extend(one.token_ids)
                    if one.finish_reason is not None and index not in self._tasks:
                        scored = self._scorer.score(prompt, responses[index], one.finish_reason, salt)
                        self._tasks[index] = asyncio.create_task(scored)
                yield output

    def places(self, count: int) -> int:
        """The index of the first of so many choices to the next prompt."""
        self._choices += count
        return self._choices - count

    async def verdict(self, index: int) -> Verdict:
        """The verdict on one choice."""
        return await self._tasks[index] if index in self._tasks else Verdict(None, NOT_FOLLOWED)

    def cancel(self) -> None:
        """Give up what has not been scored, such as when the client has gone."""
        for task in self._tasks.values():
            task.cancel()


RECORDER: ContextVar[Recorder | None] = ContextVar("recorder", default=None)
"""The recorder of the call of the API that is being answered."""


class FollowedEngine:
    """vLLM's engine client, whose generations the recorder of the call follows; all else is the client's own."""

    def __init__(self, engine: Any):
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def generate(self, prompt: Any, sampling_params: Any, *arguments: Any, **options: Any) -> AsyncIterator:
        """See vLLM's `EngineClient.generate`."""
        outputs = self._engine.generate(prompt, sampling_params, *arguments, **options)
        recorder = RECORDER.get()
        if recorder is None or options.get("lora_request") is not None:
            return outputs
        first = recorder.places(sampling_params.n)
        deltas = sampling_params.output_kind.name == "DELTA"
        return recorder.follow(outputs, first, deltas, prompt.get("cache_salt"))
