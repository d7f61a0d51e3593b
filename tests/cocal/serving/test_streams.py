"""The parts of confidences in growing responses that need no vLLM: what is asked, recorded and shown."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from cocal.engines.states import BELOW, COURSE, asking
from cocal.serving.choices import Shown, streamed
from cocal.serving.scoring import CONFIDENCES, CUT, RECORDER, UNSURE, FollowedEngine, Recorder, Scorer, Verdict

SCORER = Scorer(None, [("binary", 42), ("binary", 137), ("group", 42)], "binary", frozenset({2}), 12)


def output(ids, finish=None, stop=None, **parameters):
    """A request output of vLLM with one choice."""
    one = SimpleNamespace(index=0, token_ids=ids, finish_reason=finish, stop_reason=stop)
    return SimpleNamespace(prompt_token_ids=[5, 6], outputs=[one], kv_transfer_params=parameters or None)


def test_a_response_that_its_confidence_ended_is_told_from_one_that_was_cut():
    for reason, expected in ((BELOW, UNSURE), (None, CUT)):
        ended = output([8], "length", reason, **{CONFIDENCES: [0.2, 0.4, 0.9]})
        verdict = asyncio.run(SCORER.generated(ended, [5], [8]))
        assert (verdict.reason, verdict.confidence) == (expected, pytest.approx(0.3) if reason else None)


def test_the_course_of_a_call_is_asked_for_and_recorded():
    """Of outputs within a response the latest, of the last one all that was read."""
    asked = []

    class Engine:
        async def generate(self, prompt, sampling_params, request_id):
            asked.append(sampling_params.extra_args)
            yield output([8])
            yield output([9], **{COURSE: (2, 0.7)})
            yield output([2], "stop", **{CONFIDENCES: [0.2, 0.6, 0.9], COURSE: [0.7]})

    async def answer():
        RECORDER.set(recorder)
        parameters = SimpleNamespace(n=1, seed=None, extra_args=None)
        return [recorder.grown.pop(0, None) async for _ in FollowedEngine(Engine()).generate({}, parameters, "request")]

    recorder = Recorder(SCORER, every=2, below=0.1)
    assert asyncio.run(answer()) == [None, (2, 0.7), None]
    assert asked == [asking(every=2, below=0.1)] != [asking()]
    assert recorder.verdict(0).course == {"every": 2, "tokens": 3, "values": [0.7]}


PIECES = [(0, "a", 0), (1, "x", 0), (0, "b", 0), (1, "y", 1), (0, "c", 1)]
COURSE_OF_SECOND = {"every": 16, "tokens": 17, "values": [0.4]}


def shown_in(shown):
    """The chunks of a stream whose first choice has a confidence of 0.4 after 16 tokens, once two events were read."""
    verdicts = Verdict(0.25), Verdict(0.75, UNSURE, course=COURSE_OF_SECOND)
    recorder = SimpleNamespace(grown={}, verdict=lambda index: verdicts[index])

    async def events():
        for place, (index, text, ended) in enumerate(PIECES):
            if place == 2:
                recorder.grown[0] = (16, 0.4)
            choice = {"index": index, "delta": {"content": text}, "finish_reason": "length" if ended else None}
            yield f"data: {json.dumps({'choices': [choice]}, separators=(',', ':'))}\n\n"

    async def collected():
        return [json.loads(event[6:])["choices"][0] async for event in streamed(events(), recorder, shown)]

    return asyncio.run(collected())


def test_a_confidence_while_a_choice_grows_stands_in_its_next_event():
    chunks = shown_in(Shown())
    assert "".join(one["delta"]["content"] for one in chunks) == "axbyc"
    (grown,) = (one for one in chunks if "confidence_tokens" in one)
    assert (grown["index"], grown["delta"]["content"], grown["confidence_tokens"]) == (0, "b", 16)
    assert grown["confidence"] == grown["delta"]["confidence"] == grown["logprobs"]["confidence"] == 0.4
    last = {one["index"]: one for one in chunks if one["finish_reason"]}
    assert {k: one["finish_reason"] for k, one in last.items()} == {0: "length", 1: "confidence"}
    assert [last[k].get("confidence_course") for k in (0, 1)] == [None, COURSE_OF_SECOND]


def test_it_is_held_back_with_the_text_where_choices_are_withheld():
    chunks = shown_in(Shown(abstain_below=0.2))
    assert [one["delta"].get("content") for one in chunks] == [None, "a", "b", "c"]  # the second is abstained from
    assert [one.get("confidence_tokens") for one in chunks] == [None, None, 16, None]
    assert not any("confidence_tokens" in one for one in shown_in(Shown(abstain_below=0.5)))
