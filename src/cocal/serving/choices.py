"""Answers of the API with confidences: whole ones, and streams of server-sent events."""

import json
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from cocal.serving.scoring import RECORDER, UNSURE, Confidence, Recorder

_ENDED = '"finish_reason":"'
"""Text of an event that ends a choice. Within a response its quotation marks would be escaped."""


@dataclass(frozen=True)
class Shown:
    """What an answer shows of confidences."""

    members: bool = False
    """Whether the confidences of all members are shown, too."""
    abstain_below: float | None = None
    """Choices with a lower confidence, or without one, are abstained from; None to abstain from none."""
    withhold: bool = True
    """Whether such a choice is withheld, and not only marked."""

    @property
    def withholds(self) -> bool:
        """Whether any choice may be withheld."""
        return self.withhold and self.abstain_below is not None

    def add(self, choice: dict[str, Any], confidence: Confidence) -> bool:
        """Add a confidence to a choice of any kind of answer; returns whether the choice was withheld.

        With a threshold, a choice is also abstained from if the companion's card does not speak of such a response.
        """
        withheld = False
        if self.abstain_below is not None:
            choice["abstained"] = confidence.reason is not None or (confidence.value or 0) < self.abstain_below
            withheld = choice["abstained"] and self.withhold
        if withheld:
            _withhold(choice, f"Withheld: the confidence is not at least {self.abstain_below:g}, or not a usual one.")
            confidence = Confidence(None)
        choice["confidence"] = confidence.value
        if confidence.reason is not None:
            choice["confidence_reason"] = confidence.reason
        if self.members:
            choice["confidence_members"] = dict(confidence.members)
        if confidence.trajectory is not None:
            choice["confidence_trajectory"] = confidence.trajectory
        if "finish_reason" in choice:
            _keep(choice)
            if confidence.reason == UNSURE:
                choice["finish_reason"], choice["stop_reason"] = "confidence", None
        elif confidence.reason == UNSURE:  # a response of `/v1/responses`
            choice["incomplete_details"] = {"reason": "confidence"}
        return withheld


def _keep(choice: dict[str, Any]) -> None:
    """Repeat a confidence in fields that clients keep, since they drop those that they do not know."""
    confidence = choice["confidence"]
    for name in {"message", "delta"} & choice.keys():
        choice[name]["confidence"] = confidence
    choice["logprobs"] = {"content": None, **(choice.get("logprobs") or {}), "confidence": confidence}


def _withhold(choice: dict[str, Any], why: str) -> None:
    """Remove from a choice all that depends on its text. The finish reason would reveal a stop string; a confidence
    would reveal whether forbidding a word changed the text."""
    told = {"index": choice["index"], "finish_reason": "content_filter", "abstained": True}
    told |= {"text": "", "refusal": why} if "text" in choice else {}
    told |= {
        name: {"role": "assistant", "content": None, "refusal": why} for name in {"message", "delta"} & choice.keys()
    }
    choice.clear()
    choice.update(told)


def _outside(answer: dict[str, Any]) -> dict[str, Any]:
    """The fields of an answer outside its choices if one is withheld. Only prompt tokens are counted: the number of
    generated ones would reveal where it ended."""
    told = {name: answer[name] for name in ("id", "object", "created", "model", "choices") if name in answer}
    if usage := answer.get("usage"):
        told["usage"] = {
            **dict.fromkeys(("completion_tokens", "total_tokens")),
            "prompt_tokens": usage.get("prompt_tokens"),
        }
    return told


def whole(answer: dict[str, Any], recorder: Recorder, shown: Shown) -> dict[str, Any]:
    """Add its confidence to each choice of an answer, or to an answer of `/v1/responses`, which has no choices. What
    the engine has told (`kv_transfer_params`) is removed."""
    answer.pop("kv_transfer_params", None)
    if "choices" not in answer:
        shown.add(answer, recorder.confidence())
    withheld = [shown.add(choice, recorder.confidence(choice["index"])) for choice in answer.get("choices", ())]
    return _outside(answer) if any(withheld) else answer


async def streamed(events: AsyncGenerator[str], recorder: Recorder, shown: Shown) -> AsyncIterator[str]:
    """A stream of events, in which the last one of each choice has its confidence, and others that of the choice so far
    where the call asks for it.

    Where choices may be withheld, all events of a choice are held back until its confidence is known.
    """
    held: dict[int, list[str]] = defaultdict(list)
    any_withheld = False
    async with aclosing(events):
        async for event in events:
            choice, chunk = None, {}
            if shown.withholds or recorder.grown or _ENDED in event:
                chunk = json.loads(event[6:]) if event.startswith("data: {") else {}
                choice = next(iter(chunk.get("choices") or ()), None)
            if choice is None:
                yield _written(_outside(chunk)) if any_withheld and "choices" in chunk else event
            elif choice.get("finish_reason") is None:
                # an event with the role comes before all text, although the first tokens are there by then
                begins = choice.get("delta", {}).get("role")
                if so_far := None if begins else recorder.grown.pop(choice["index"], None):
                    choice["confidence_tokens"], choice["confidence"] = so_far
                    _keep(choice)
                same = event if so_far is None else _written(chunk)
                if shown.withholds:
                    held[choice["index"]].append(same)
                else:
                    yield same
            else:
                before = held.pop(choice["index"], [])
                withheld = shown.add(choice, recorder.confidence(choice["index"]))
                for earlier in () if withheld else before:
                    yield earlier
                any_withheld = any_withheld or withheld
                yield _written(_outside(chunk) if withheld else chunk)


async def of_response(events: AsyncGenerator[Any], recorder: Recorder, shown: Shown) -> AsyncIterator[str]:
    """The stream of a call of `/v1/responses`, whose last event has the whole response, and whose events with text have
    the confidence so far where the call asks for it. vLLM begins to generate while the stream is read, and each event
    may be read in a context of its own."""
    RECORDER.set(recorder)
    async with aclosing(events):
        async for event in events:
            content = event.model_dump(mode="json", by_alias=True)
            if content["type"] in ("response.completed", "response.incomplete"):
                whole(content["response"], recorder, shown)
            elif recorder.grown and content["type"].endswith(".delta"):
                _, (content["confidence_tokens"], content["confidence"]) = recorder.grown.popitem()
            yield f"event: {content['type']}\ndata: {json.dumps(content, ensure_ascii=False)}\n\n"
            RECORDER.set(recorder)


def _written(chunk: dict[str, Any]) -> str:
    return f"data: {json.dumps(chunk, ensure_ascii=False, separators=(',', ':'))}\n\n"
