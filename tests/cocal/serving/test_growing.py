"""Confidences while responses grow, from the real vLLM: they are those of `cocal score`, and end responses."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cocal import Companion

pytestmark = pytest.mark.vllm

TOLERANCE, EVERY = 1e-5, 5
CHAT, COMPLETION, RESPONSE = "/v1/chat/completions", "/v1/completions", "/v1/responses"


@pytest.fixture(scope="module")
def companion(own, tmp_path_factory):
    """Of prefixes, which reads states as they are (rounded ones may fall to either side of a rounding), and what the
    model gave the tokens."""
    flags = ("--states", "float32", "--passes", "20", "--prefixes", "7", "--recipe", "best")
    return own.fitted(tmp_path_factory.mktemp("companion"), *flags, "--with", "token-probability")


@pytest.fixture(scope="module")
def server(own, companion, tmp_path_factory):
    from served import PREEMPTING, served  # needs requests

    log, cache = tmp_path_factory.mktemp("server") / "log", str(24 * 32 * 512)
    with served(companion, own.checkpoint, log, *PREEMPTING, cache) as one:
        yield one


def chat(own, k: int, **more) -> dict:
    text = own.texts.iloc[k % len(own.texts)] * (1 + k % 3)
    return {"messages": [{"role": "user", "content": text}], "return_token_ids": True, "max_tokens": 90, **more}


def trajectories(own, companion, pairs, every=EVERY):
    """The confidences and trajectories of `Companion.score` of prompts and choices."""
    ids = [np.array(prompt) for prompt, _ in pairs], [np.array(one["token_ids"]) for _, one in pairs]
    return Companion.from_pretrained(companion).score(*own.policy, *ids, every=every)


def test_under_load_every_trajectory_is_that_of_cocal_score(own, companion, server):
    """Whole answers and streams side by side, a fifth of which ask for nothing."""

    def one(k: int):
        body = chat(own, k, n=1 + k % 2, **({} if k % 5 == 0 else {"confidence_every": EVERY}))
        if k % 3:
            status, answer = server.ask(CHAT, body)
            assert status == 200, answer
            return [(answer["prompt_token_ids"], choice) for choice in answer["choices"]]
        events = server.stream(CHAT, body)
        found, prompt = {}, events[0]["prompt_token_ids"]
        for choice in (event["choices"][0] for event in events if event["choices"]):
            whole = found.setdefault(choice["index"], {"token_ids": [], "streamed": {}})
            whole["token_ids"] += choice.get("token_ids") or []
            if "confidence_tokens" in choice:
                assert choice["confidence_tokens"] <= len(whole["token_ids"]) <= choice["confidence_tokens"] + EVERY
                whole["streamed"][choice["confidence_tokens"]] = choice["confidence"]
            elif choice["finish_reason"]:
                whole |= {**choice, "token_ids": whole["token_ids"]}
        return [(prompt, choice) for choice in found.values()]

    with ThreadPoolExecutor(60) as pool:
        pairs = [pair for found in pool.map(one, range(60)) for pair in found]
    assert server.metric("vllm:num_preemptions_total") > 0
    whole, expected = trajectories(own, companion, pairs)
    asked, streamed = 0, 0
    for (_, choice), confidence, values in zip(pairs, whole, expected, strict=True):
        if choice["finish_reason"] == "stop":
            assert choice["confidence"] == pytest.approx(confidence, abs=TOLERANCE)
        if trajectory := choice.get("confidence_trajectory"):
            assert (trajectory["every"], trajectory["tokens"]) == (EVERY, len(choice["token_ids"]))
            np.testing.assert_allclose(trajectory["values"], values, atol=TOLERANCE)
            asked += len(values)
        for tokens, value in choice.get("streamed", {}).items():
            assert value == pytest.approx(values[tokens // EVERY - 1], abs=TOLERANCE)
            streamed += 1
    assert sum("confidence_trajectory" not in choice for _, choice in pairs) >= 12
    assert asked > 100  # of answers that are sampled
    assert streamed
    assert np.ptp(np.concatenate(expected)) > 100 * TOLERANCE


def test_a_response_ends_where_its_confidence_falls_below_the_threshold(own, companion, server):
    """And not before: at the first value of its trajectory below it, plus the token that was sampled meanwhile.

    The threshold is the median of the lowest values of as many responses to the same prompt, so that about half end."""
    kept, ended = 0, 0
    for k in range(6):
        body = chat(own, k, n=8, confidence_every=EVERY)
        trajectories_before = [one["confidence_trajectory"]["values"] for one in server.ask(CHAT, body)[1]["choices"]]
        threshold = float(np.median([min(values) for values in trajectories_before if values]))
        status, answer = server.ask(CHAT, {**body, "confidence_stop_below": threshold})
        assert status == 200, answer
        pairs = [(answer["prompt_token_ids"], choice) for choice in answer["choices"]]
        for (_, one), confidence, trajectory in zip(pairs, *trajectories(own, companion, pairs), strict=True):
            np.testing.assert_allclose(one["confidence_trajectory"]["values"], trajectory, atol=TOLERANCE)
            below = [value < threshold for value in one["confidence_trajectory"]["values"]]
            if one["finish_reason"] == "confidence":
                ended += 1
                assert below == [False] * (len(trajectory) - 1) + [True]
                assert len(one["token_ids"]) == len(trajectory) * EVERY + 1
                assert one["confidence"] == pytest.approx(confidence, abs=TOLERANCE)
                assert "fell below the threshold" in one["confidence_reason"]
                text = own.policy.tokenizer.decode(one["token_ids"], skip_special_tokens=True)
                text = text.rstrip("\ufffd")  # vLLM leaves out a character of which only the first bytes have come
                assert one["message"]["content"].rstrip("\ufffd") == text  # the last token stands in the text
            else:
                kept += 1
                ended_anyway = len(one["token_ids"]) == len(trajectory) * EVERY + 1  # by what was sampled meanwhile
                assert not any(below[:-1] if ended_anyway else below)
                assert "confidence_reason" not in one or one["finish_reason"] == "length"
    assert kept > 5
    assert ended > 5


def test_by_default_it_is_looked_at_where_the_companion_has_learnt(own, server):
    """In streams, whose last event says why they ended, and in completions."""
    prompt = list(map(int, own.rollouts["prompt_ids"].iloc[0]))
    body = {"prompt": prompt, "max_tokens": 60, "ignore_eos": True, "return_token_ids": True}
    status, answer = server.ask(COMPLETION, {**body, "confidence_stop_below": 1.0, "n": 2})
    assert status == 200, answer
    for one in answer["choices"]:
        assert (one["finish_reason"], len(one["token_ids"])) == ("confidence", 8)
        assert one["confidence_trajectory"]["every"] == 7
    events = [
        event["choices"][0]
        for event in server.stream(COMPLETION, {**body, "confidence_stop_below": 1.0})
        if event["choices"]
    ]
    assert events[-1]["finish_reason"] == "confidence"
    assert events[-1]["confidence_trajectory"]["tokens"] == 8
    assert server.ask(COMPLETION, {**body, "confidence_stop_below": 0.0})[1]["choices"][0]["finish_reason"] == "length"


def test_responses_grow_and_end_likewise(own, server):
    body = {"model": "micro", "input": own.texts.iloc[0], "max_output_tokens": 60, "confidence_every": EVERY}
    status, answer = server.ask(RESPONSE, body)
    assert status == 200, answer
    assert answer["confidence_trajectory"]["every"] == EVERY
    shown = 0
    for text in own.texts.iloc[:6]:
        *events, last = server.stream(RESPONSE, {**body, "input": text})
        trajectory = last["response"]["confidence_trajectory"]["values"]
        for event in (event for event in events if "confidence" in event):
            expected = trajectory[event["confidence_tokens"] // EVERY - 1]
            assert event["confidence"] == pytest.approx(expected, abs=TOLERANCE)
            shown += 1
    assert shown  # tokens that come together are one event, so how many there are depends on the machine
    ended = 0
    for text in own.texts.iloc[:12]:  # some responses are over of themselves before that
        status, answer = server.ask(RESPONSE, {**body, "input": text, "confidence_stop_below": 1.0})
        assert status == 200, answer
        tokens, why = answer["confidence_trajectory"]["tokens"], answer["incomplete_details"]
        if answer["status"] == "completed":
            assert tokens <= EVERY + 1
        else:
            ended += 1
            assert (answer["status"], why, tokens) == ("incomplete", {"reason": "confidence"}, EVERY + 1)
    assert ended


@pytest.mark.parametrize(
    "more",
    [{"confidence_every": 0}, {"confidence_every": "a"}, {"confidence_every": True}, {"confidence_stop_below": 1.5}],
)
def test_wrong_wishes_are_refused(own, server, more):
    status, answer = server.ask(CHAT, chat(own, 1, **more))
    assert status == 400, answer
    assert next(iter(more)) in answer["error"]["message"]
