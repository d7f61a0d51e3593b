"""`cocal serve` with the real vLLM: confidences equal those of `cocal score` under load, and bad bodies are refused.

The cache of the server is so small that requests are preempted, prompts are read in several steps, and prefixes are
shared.
"""

import json
import random
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cocal import Companion
from own_rollouts import read_lines, write_lines

pytestmark = pytest.mark.vllm

TOLERANCE = 1e-5
CHAT, COMPLETION, CONFIDENCE = "/v1/chat/completions", "/v1/completions", "/v1/confidence"
CACHE = str(24 * 32 * 640)
"""Bytes of twenty-four blocks of 32 tokens, each of which has 512 bytes of keys and values and 128 of states."""


@pytest.fixture(scope="module")
def companion(own, tmp_path_factory):
    """A companion that reads states as they are, and what the model gave the tokens; rounded states may fall to either
    side of a rounding."""
    flags = ("--states", "float32", "--passes", "20", "--recipe", "best", "--with", "token-probability")
    return own.fitted(tmp_path_factory.mktemp("companion"), *flags)


@pytest.fixture(scope="module")
def server(own, companion, tmp_path_factory):
    from served import PREEMPTING, served  # needs requests

    log = tmp_path_factory.mktemp("server") / "log"
    abstaining = ["--abstain-below", "0.5", "--abstained", "marked"]
    with served(companion, own.checkpoint, log, *PREEMPTING, CACHE, *abstaining) as one:
        yield one


def chat(own, k: int, **more) -> dict:
    """The body of a question. None has a seed: vLLM's build for processors dies of one where a prompt is read in
    several steps ("CPU Generator does not use offset")."""
    text = own.texts.iloc[k % len(own.texts)]
    return {"messages": [{"role": "user", "content": text}], "return_token_ids": True, **more}


def check(own, companion, pairs) -> None:
    """Each choice of an answer has the confidence that `cocal score` gives to its ids.

    Args:
        pairs: Prompt ids and a choice.
    """
    for _, one in pairs:
        assert ("cut at the length limit" in one.get("confidence_reason", "")) == (one["finish_reason"] == "length")
        assert one["abstained"] == ("confidence_reason" in one or one["confidence"] < 0.5)
    prompts = [np.array(prompt) for prompt, _ in pairs]
    responses = [np.array(one["token_ids"]) for _, one in pairs]
    expected = Companion.from_pretrained(companion).score(*own.policy, prompts, responses)
    np.testing.assert_allclose([one["confidence"] for _, one in pairs], expected, atol=TOLERANCE)


def test_under_load_every_confidence_is_that_of_cocal_score(own, companion, server):
    """Two hundred concurrent requests of mixed lengths, a quarter of which are aborted."""

    def one(k: int):
        draw = random.Random(k)
        body = chat(own, k, max_tokens=draw.choice([8, 24, 60, 120]), n=draw.choice([1, 1, 3]))
        body["messages"][0]["content"] *= 1 + k % 3  # the longer prompts share a block of the cache
        if k % 4 == 0:
            server.stream(CHAT, body, stop_after=1 + draw.randrange(6))
            return []
        status, answer = server.ask(CHAT, body)
        assert status == 200, answer
        assert len(answer["choices"]) == body["n"]
        return [(answer["prompt_token_ids"], choice) for choice in answer["choices"]]

    def load():
        with ThreadPoolExecutor(200) as pool:
            return [pair for found in pool.map(one, range(200)) for pair in found]

    pairs = load()
    server.idle()
    before = server.memory()
    assert sorted(pair[1]["token_ids"] for pair in load())
    server.idle()
    assert server.memory() < before + 2**26
    check(own, companion, pairs)
    assert {choice["finish_reason"] for _, choice in pairs} == {"stop", "length"}
    assert np.ptp([choice["confidence"] for _, choice in pairs if choice["finish_reason"] == "stop"]) > 100 * TOLERANCE
    assert server.metric("vllm:num_preemptions_total") > 0
    assert server.metric("vllm:prefix_cache_hits_total") > 0


def test_completions_have_confidences_for_every_prompt(own, companion, server):
    """Of ids, with several choices to each prompt."""
    prompts = [list(map(int, ids)) for ids in own.rollouts["prompt_ids"][:8:4]]
    body = {"prompt": prompts, "n": 2, "max_tokens": 60, "return_token_ids": True}
    status, answer = server.ask(COMPLETION, body)
    assert status == 200, answer
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    check(own, companion, [(prompts[choice["index"] // 2], choice) for choice in answer["choices"]])
    assert "confidence" in server.stream(COMPLETION, {**body, "prompt": prompts[0], "n": 1})[-1]["choices"][0]


def test_responses_that_exist_get_the_confidences_of_cocal_score(own, companion, server, tmp_path):
    """Texts, chats and ids, in one body and one by one."""
    lines = read_lines(write_lines(tmp_path / "mine.jsonl", own.rollouts, own.texts))
    end = min(own.policy.ends)
    lines[0]["response_ids"] = [52, end, 53, end]  # an end token within is read as any other
    lines[1]["response_ids"] = [52, end, 53]
    text = own.policy.tokenizer.decode(lines[0]["response_ids"], skip_special_tokens=True)
    chats = [[{"role": "user", "content": line["prompt"]}] for line in lines[:3]]
    kinds = (
        [{name: line[name] for name in ("prompt_ids", "response_ids")} for line in lines],
        [{"prompt": line["prompt"], "response": text} for line in lines[:3]],
        [{"messages": chat, "response": text} for chat in chats],
    )
    rows, scored = [row for kind in kinds for row in kind], []
    for number, kind in enumerate(kinds):
        source, target = tmp_path / f"in-{number}.jsonl", tmp_path / f"out-{number}.jsonl"
        source.write_text("".join(json.dumps(row) + "\n" for row in kind), encoding="utf-8")
        assert own.score(source, target, companion=str(companion)) == 0
        scored += read_lines(target)
    status, answer = server.ask(CONFIDENCE, {"rows": rows})
    assert status == 200, answer
    ends = own.policy.ends
    for row, one, line in zip(rows, answer["data"], scored, strict=True):
        assert one["confidence_ids"] == line["confidence_ids"]
        unended = "response_ids" in row and row["response_ids"][-1] not in ends
        assert one["confidence"] == pytest.approx(line["confidence"], abs=TOLERANCE)
        assert ("does not end with an end-of-sequence token" in one.get("confidence_reason", "")) == unended
        assert one["abstained"] == (unended or one["confidence"] < 0.5)
    (alone,) = server.ask(CONFIDENCE, rows[-1])[1]["data"]
    assert alone["confidence"] == pytest.approx(scored[-1]["confidence"], abs=TOLERANCE)


HOSTILE = [
    (CHAT, {"messages": "no"}),
    (CHAT, {"messages": []}),
    (CHAT, {"messages": [{"role": "user", "content": "1"}], "n": 10**9}),
    (CHAT, {"messages": [{"role": "user", "content": "1 " * 5000}]}),
    (CHAT, {"messages": [{"role": "user", "content": "1"}], "confidence_members": "some"}),
    (CHAT, {"messages": [{"role": "user", "content": "1"}], "model": "another"}),
    (CHAT, {"messages": [{"role": "user", "content": "1"}], "kv_transfer_params": 7}),
    (CHAT, {"messages": [{"role": "user", "content": "1"}], "confidence_every": 2**63}),
    (COMPLETION, {"prompt": [5, 10**9], "max_tokens": 4}),
    (COMPLETION, {"prompt": {"a": 1}}),
    (CONFIDENCE, {}),
    (CONFIDENCE, {"prompt_ids": [5, 384], "response_ids": [6]}),
    (CONFIDENCE, {"prompt_ids": [5, 10**20], "response_ids": [6]}),
    (CONFIDENCE, {"prompt_ids": [5] * 500, "response_ids": [6]}),
    (CONFIDENCE, {"messages": [{"role": "assistant", "content": "1"}], "response": "1"}),
    (CONFIDENCE, {"rows": [{"prompt": "1", "response": "1"}] * 5000}),
    (CONFIDENCE, {"rows": [{"prompt": "1", "response": ["1"]}]}),
    (CONFIDENCE, {"prompt": "1", "response": "1", "model": "another"}),
]


def test_hostile_bodies_get_the_api_s_errors_and_the_server_goes_on(own, companion, server):
    for path, body in HOSTILE:
        status, answer = server.ask(path, body)
        assert 400 <= status < 500, (path, str(body)[:200], status, answer)
        assert answer["error"]["message"], (path, body)
    for text in ("", "{", "[1]", "null", '{"messages": ' + "[" * 5000, "\x00"):
        for path in (CHAT, CONFIDENCE):
            assert 400 <= server.ask(path, text=text)[0] < 500, (path, text[:20])
    hidden = {"cocal_prompt": -3, "do_remote_prefill": True}
    status, answer = server.ask(CHAT, chat(own, 1, kv_transfer_params=hidden, n=4, max_tokens=100))
    assert status == 200
    check(own, companion, [(answer["prompt_token_ids"], choice) for choice in answer["choices"]])
    ended = own.policy.tokenizer.decode([min(own.policy.ends)])
    before, _, after = (
        server.ask(CONFIDENCE, {"prompt": "1 + 1", "response": text})[1]["data"][0] for text in ("2", f"3{ended}", "2")
    )
    assert before == after, "what others have sent changes nothing"
    for wishes in ({"cocal_every": "x"}, {"cocal_every": 2**40}, {"cocal_below": "x", "cocal_every": 2}):
        hidden = {"kv_transfer_params": {"cocal_prompt": 0, **wishes}}
        assert server.ask("/invocations", chat(own, 1, max_tokens=9, **hidden))[0] == 200
        assert server.ask(CHAT, chat(own, 1, max_tokens=9))[0] == 200, "the engine lives on"
    server.idle()


def test_responses_that_fill_the_context_are_answered(own, server):
    """With others beside them; no room is left for a score, which is said."""
    prompt = list(map(int, own.rollouts["prompt_ids"].iloc[0]))
    end = min(own.policy.ends)
    for short in range(4):
        response = [20] * (191 - short - len(prompt)) + [end]
        status, answer = server.ask(CONFIDENCE, {"prompt_ids": prompt, "response_ids": response})
        assert status == (200 if short else 400), answer
    assert answer["data"][0]["confidence"] is not None
    body = {"prompt": prompt, "ignore_eos": True, "max_tokens": 192 - len(prompt)}
    status, answer = server.ask(COMPLETION, body)
    assert status == 200, answer
    assert answer["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("more", [{"confidence_every": 4}, {"confidence_stop_below": 0.1}])
def test_a_companion_of_whole_responses_refuses_wishes_of_growing_ones(own, server, more):
    status, answer = server.ask(CHAT, chat(own, 1, **more))
    assert status == 400, answer
    assert "fit it with `cocal fit --prefixes 16`" in answer["error"]["message"]


@pytest.mark.parametrize(
    "more",
    [
        {"top_k": 4},
        {"min_p": 0.1, "logit_bias": {"20": 2.0}},
        {"structured_outputs": {"regex": "[0-9]{1,3}"}},  # a step that waits for the grammar computes nothing
        {"prompt_logprobs": 1},
        {"repetition_penalty": 1.1, "logprobs": True, "top_logprobs": 2},
    ],
)
def test_every_way_to_sample_has_confidences(own, companion, server, more):
    """With a reason where the request says which tokens may come."""
    status, answer = server.ask(CHAT, chat(own, 2, n=2, max_tokens=60, **more))
    assert status == 200, answer
    said = [one.get("confidence_reason", "") for one in answer["choices"] if one["finish_reason"] == "stop"]
    steered = not more.keys().isdisjoint({"logit_bias", "structured_outputs"})
    assert ["which tokens may be drawn" in reason for reason in said] == [steered] * len(said)
    assert answer.get("kv_transfer_params") is None
    check(own, companion, [(answer["prompt_token_ids"], choice) for choice in answer["choices"]])


def test_what_a_stop_string_ended_has_the_confidence_of_its_states(own, companion, server):
    """In streams, too; a token that the request names is read as it comes."""
    prompt = list(map(int, own.rollouts["prompt_ids"].iloc[0]))
    status, answer = server.ask(COMPLETION, {"prompt": prompt, "max_tokens": 60, "n": 6, "return_token_ids": True})
    assert status == 200, answer
    long = max(answer["choices"], key=lambda one: len(one["text"]))
    token = long["token_ids"][1]
    for more in ({"stop": list(dict.fromkeys(long["text"]))[:4]}, {"stop_token_ids": [token]}):
        body = {"prompt": prompt, "max_tokens": 60, "n": 16, "return_token_ids": True, **more}
        status, answer = server.ask(COMPLETION, body)
        assert status == 200, answer
        stopped = [one for one in answer["choices"] if one["stop_reason"] is not None]
        assert stopped
        expected = Companion.from_pretrained(companion).score(
            *own.policy, [np.array(prompt)] * len(stopped), [np.array(one["token_ids"]) for one in stopped]
        )
        np.testing.assert_allclose([one["confidence"] for one in stopped], expected, atol=TOLERANCE)
        assert all("so that this is the confidence of its states so far" in one["confidence_reason"] for one in stopped)
        assert all(one["abstained"] for one in stopped)
        last = {
            one["choices"][0]["index"]: one["choices"][0] for one in server.stream(COMPLETION, body) if one["choices"]
        }
        assert all(one["confidence"] is not None for one in last.values() if one["stop_reason"] is not None)


@pytest.mark.parametrize(
    "more",
    [
        {"chat_template_kwargs": {"enable_thinking": True}},
        {"chat_template_kwargs": {"another": 1}},
        {"reasoning_effort": "high"},
        {"add_generation_prompt": False, "continue_final_message": True},
        {"messages": [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}]},
    ],
)
def test_chats_in_another_mode_of_the_template_are_marked(own, server, more):
    for given, marked in ((more, True), ({"chat_template_kwargs": {"enable_thinking": False}}, False)):
        status, answer = server.ask(CHAT, {**chat(own, 1, n=6, max_tokens=60), **given})
        assert status == 200, answer
        known = [one for one in answer["choices"] if one["finish_reason"] == "stop"]
        assert [("another mode" in one.get("confidence_reason", "")) for one in known] == [marked] * len(known)
        assert all(one["abstained"] for one in known) or not marked


def test_the_header_of_load_comes_as_from_vllm(own, server):
    """ORCA, by which load balancers choose a server."""
    server.headers["endpoint-load-metrics-format"] = "json"
    with server.open(CHAT, chat(own, 1, max_tokens=4)) as response:
        del server.headers["endpoint-load-metrics-format"]
        assert "kv_cache_usage_perc" in response.headers["endpoint-load-metrics"]


def test_clients_keep_the_confidence(own, server):
    """As their own objects: answers, streams, and OpenAI's helper for streams, which keeps the deltas alone."""
    import litellm
    from langchain_openai import ChatOpenAI
    from openai import OpenAI

    asked = {"temperature": 0.01, "max_tokens": 60}
    where = {"base_url": f"http://127.0.0.1:{server.port}/v1", "api_key": "none"}
    messages, texts = [{"role": "user", "content": own.texts.iloc[k]} for k in range(12)], []
    for message in messages:
        _, answer = server.ask(CHAT, {"messages": [message], "model": "micro", **asked})
        if answer["choices"][0]["confidence"] is not None:
            texts.append((message, pytest.approx(answer["choices"][0]["confidence"], abs=1e-4)))
    (message, expected), *_ = texts
    client, langchain = OpenAI(**where), ChatOpenAI(model="micro", **where, **asked)
    choice = client.chat.completions.create(model="micro", messages=[message], **asked).choices[0]
    assert choice.confidence == choice.message.confidence == choice.logprobs.confidence == expected
    with client.chat.completions.stream(model="micro", messages=[message], **asked) as stream:
        for _ in stream:
            pass
        assert stream.get_final_completion().choices[0].message.confidence == expected
    given = {"model": "micro", "input": [message], "temperature": 0.01, "max_output_tokens": 60}
    assert client.responses.create(**given).confidence == expected
    events = list(client.responses.create(**given, stream=True))
    assert events[-1].response.confidence == expected
    assert langchain.invoke(message["content"]).response_metadata["logprobs"]["confidence"] == expected
    *_, last = (one for one in langchain.stream(message["content"]) if "logprobs" in one.response_metadata)
    assert last.response_metadata["logprobs"]["confidence"] == expected
    given = {"model": "openai/micro", "messages": [message], **where, **asked}
    assert litellm.completion(**given).choices[0].logprobs.confidence == expected
    found = [one.choices[0] for one in litellm.completion(**given, stream=True)]
    assert [one.logprobs.confidence for one in found if one.logprobs] == [expected]


def test_health_metrics_and_page_show_the_companion(own, companion, server):
    status, health = server.ask("/health")
    assert (status, health["healthy"]) == (200, True)
    assert health["companion"]["companion"] == str(companion)
    assert health["companion"]["block"] == 1
    assert re.search(r"^\| companion +\| \d", health["companion"]["held_out"], re.MULTILINE)
    _, metrics = server.ask("/metrics")
    assert f'companion="{companion}"' in metrics
    status, page = server.ask("/")
    assert status == 200
    assert "How sure is this answer?" in page
    assert "http" not in page.replace("'http://www.w3.org", "")  # it needs nothing from elsewhere
    assert health["companion"]["mean_confidence"] is not None
