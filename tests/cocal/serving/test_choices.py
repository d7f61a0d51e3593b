"""How answers change, which needs no vLLM: confidences in choices and streams, and what is withheld."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from cocal.serving.choices import Shown, streamed, whole
from cocal.serving.scoring import CUT, NOT_FOLLOWED, STOPPED, UNSURE, Confidence, Recorder, Scorer


def recorded(*confidences: Confidence) -> SimpleNamespace:
    """A recorder whose confidences are known."""
    return SimpleNamespace(grown={}, confidence=lambda index: confidences[index])


def test_a_choice_below_the_threshold_is_withheld_or_marked():
    confidences = Confidence(0.4, None, {"binary-42": 0.4}), Confidence(0.5, None, {}), Confidence(None, CUT)

    def answered(shown):
        own = {"logprobs": {"content": [1]}, "token_ids": [1], "finish_reason": "stop"}
        messages = [{"role": "assistant", "content": f"text {k}"} for k in range(3)]
        choices = [{"index": k, "message": message, **own} for k, message in enumerate(messages)]
        return whole({"choices": choices}, recorded(*confidences), shown)["choices"]

    plain = answered(Shown())
    assert [choice["confidence"] for choice in plain] == [0.4, 0.5, None]
    assert [choice.get("confidence_reason") for choice in plain] == [None, None, CUT]
    assert not any("abstained" in choice or "confidence_members" in choice for choice in plain)
    assert answered(Shown(members=True))[0]["confidence_members"] == {"binary-42": 0.4}
    marked = answered(Shown(abstain_below=0.5, withhold=False))
    assert [choice["abstained"] for choice in marked] == [True, False, True]
    assert [choice["message"]["content"] for choice in marked] == ["text 0", "text 1", "text 2"]
    withheld = answered(Shown(abstain_below=0.5))
    assert [choice["message"]["content"] for choice in withheld] == [None, "text 1", None]
    assert withheld[0]["message"]["refusal"] == "Withheld: the confidence is not at least 0.5, or not a usual one."
    assert "text 0" not in json.dumps(withheld[0])
    assert (withheld[0]["logprobs"], "token_ids" in withheld[0]) == ({"content": None, "confidence": None}, False)


def test_a_withheld_answer_is_the_same_however_it_ended():
    """What stands beside the text, also at the top, is left out; nothing differs, not the confidence either."""

    def answered(confidence, **own):
        choice = {"index": 0, "message": {"content": own["text"]}, "finish_reason": own["end"], "of_vllm": own["text"]}
        usage = {"prompt_tokens": 7, "completion_tokens": own["count"], "total_tokens": 7 + own["count"]}
        answer = {"id": "a", "model": "m", "choices": [choice], "usage": usage, "prompt_logprobs": [own["text"]]}
        return whole(answer, recorded(confidence), Shown(abstain_below=0.5))

    low = answered(Confidence(0.4, None, {"binary-42": 0.4}), text="whole", end="stop", count=9)
    stopped = answered(Confidence(0.9, STOPPED), text="first", end="stop", count=3)
    cut = answered(Confidence(None, CUT), text="second", end="length", count=5)
    assert low == stopped == cut
    assert stopped.keys() == {"id", "model", "choices", "usage"}
    assert stopped["usage"] == {"prompt_tokens": 7, "completion_tokens": None, "total_tokens": None}
    (choice,) = stopped["choices"]
    assert choice.keys() == {"index", "finish_reason", "message", "logprobs", "abstained", "confidence"}
    assert choice["confidence"] is choice["message"]["confidence"] is choice["logprobs"]["confidence"] is None


def test_clients_find_the_confidence_within_what_they_keep():
    """OpenAI's helper for streams keeps the delta alone, LangChain the log-probabilities alone."""
    logprobs = {"content": [{"token": "a"}], "refusal": None}
    for name in ("message", "delta"):
        choice = {"index": 0, name: {"content": "text"}, "finish_reason": "stop", "logprobs": logprobs}
        answer = {"choices": [choice], "kv_transfer_params": {"a": 1}}
        (found,) = whole(answer, recorded(Confidence(0.7)), Shown())["choices"]
        assert found["confidence"] == found[name]["confidence"] == found["logprobs"]["confidence"] == 0.7
        assert found["logprobs"]["content"] == [{"token": "a"}]
    recorder = Recorder(Scorer(None, [], "binary", frozenset(), 12))
    found = whole({"output": [], "kv_transfer_params": {"a": 1}}, recorder, Shown())  # of /v1/responses
    assert found == {"output": [], "confidence": None, "confidence_reason": NOT_FOLLOWED}


PIECES = [(0, "a", 0), (1, 'x"finish_reason":"stop"', 0), (0, "b", 0), (1, "y", 1), (0, "c", 1)]
TRAJECTORY_OF_SECOND = {"every": 16, "tokens": 17, "values": [0.4]}


def chunks_of(shown: Shown, second: Confidence, grown: bool = False, role_of: int | None = None) -> list[dict]:
    """The chunks of a stream with two choices, the last events of which are its usage and its end; where it grows, the
    first choice has a confidence of 0.4 after 16 tokens, once two events were read. One of the events may be that which
    names the role."""
    recorder = recorded(Confidence(0.25), second)

    async def events():
        for place, (index, text, ended) in enumerate(PIECES):
            if place == 2 and grown:
                recorder.grown[0] = (16, 0.4)
            delta = {"content": text} | ({"role": "assistant"} if place == role_of else {})
            choice = {"index": index, "delta": delta, "finish_reason": "length" if ended else None}
            yield f"data: {json.dumps({'choices': [choice]}, separators=(',', ':'))}\n\n"
        yield 'data: {"choices":[],"usage":{"total_tokens":3}}\n\n'
        yield "data: [DONE]\n\n"

    async def collected():
        return [event async for event in streamed(events(), recorder, shown)]

    *found, usage, end = asyncio.run(collected())
    withheld = any(one["finish_reason"] == "content_filter" for one in map(_first, found))
    assert json.loads(usage[6:])["usage"].get("total_tokens") == (None if withheld else 3)
    assert end == "data: [DONE]\n\n"
    return [_first(event) for event in found]


def _first(event: str) -> dict:
    return json.loads(event[6:])["choices"][0]


@pytest.mark.parametrize("shown", [Shown(), Shown(abstain_below=0.5, withhold=False), Shown(abstain_below=0.5)])
def test_the_last_event_of_each_choice_has_its_confidence(shown):
    chunks = chunks_of(shown, Confidence(0.75))
    lowest = None if shown.withholds else 0.25
    assert [one["confidence"] for one in chunks if one["finish_reason"]] == [0.75, lowest]
    assert not any("confidence" in one for one in chunks if not one["finish_reason"])
    texts = {k: "".join(one["delta"]["content"] or "" for one in chunks if one["index"] == k) for k in (0, 1)}
    assert texts == {0: "" if shown.withholds else "abc", 1: 'x"finish_reason":"stop"y'}


def test_a_confidence_while_a_choice_grows_stands_in_its_next_event():
    chunks = chunks_of(Shown(), Confidence(0.75, UNSURE, trajectory=TRAJECTORY_OF_SECOND), grown=True)
    assert [one["delta"]["content"] for one in chunks] == [text for _, text, _ in PIECES]
    (grown,) = (one for one in chunks if "confidence_tokens" in one)
    assert (grown["index"], grown["delta"]["content"], grown["confidence_tokens"]) == (0, "b", 16)
    assert grown["confidence"] == grown["delta"]["confidence"] == grown["logprobs"]["confidence"] == 0.4
    last = {one["index"]: one for one in chunks if one["finish_reason"]}
    assert {k: one["finish_reason"] for k, one in last.items()} == {0: "length", 1: "confidence"}
    assert [last[k].get("confidence_trajectory") for k in (0, 1)] == [None, TRAJECTORY_OF_SECOND]


def test_it_does_not_stand_in_the_event_that_names_the_role():
    """Which comes before all text, while a busy server may have joined the first tokens and their confidence."""
    chunks = chunks_of(Shown(), Confidence(0.75), grown=True, role_of=2)
    assert not any("confidence_tokens" in one for one in chunks)


def test_it_is_held_back_with_the_text_where_choices_are_withheld():
    """The second choice is abstained from."""
    chunks = chunks_of(Shown(abstain_below=0.2), Confidence(0.75, UNSURE), grown=True)
    assert [one["delta"].get("content") for one in chunks] == [None, "a", "b", "c"]
    assert [one.get("confidence_tokens") for one in chunks] == [None, None, 16, None]
    chunks = chunks_of(Shown(abstain_below=0.5), Confidence(0.75, UNSURE), grown=True)
    assert not any("confidence_tokens" in one for one in chunks)
