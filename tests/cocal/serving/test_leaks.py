"""What is withheld cannot be had by any route of vLLM's server, and no route that answers does so without the key."""

import json

import pytest

pytestmark = pytest.mark.vllm

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
WRITES = {
    CHAT,
    COMPLETION,
    "/v1/chat/completions/batch",
    "/v1/responses",
    "/v1/responses/{response_id}",
    "/v1/responses/{response_id}/cancel",
    "/v1/messages",
    "/v1/systemone",
    "/generative_scoring",
    "/inference/v1/generate",
    "/invocations",
}
"""All routes of vLLM's that tell what the model writes."""
KEY = "a-key"


def test_every_route_of_vllm_s_is_known():
    """Another version that adds one must be read: does it tell what the model writes?"""
    from vllm.entrypoints.launchers.app import build_app
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    from cocal.serving.server import GUARDED, OPEN, OWN

    args = make_arg_parser(FlexibleArgumentParser()).parse_args(["--enable-offline-docs"])
    found = {route.path for route in build_app(args, ("generate", "render")).routes}
    assert found - OPEN - GUARDED == WRITES
    assert not WRITES & OPEN
    assert (OPEN - found) <= {"/redoc", "/static", "/openapi.json"}  # not with these flags
    own = WRITES & OWN
    assert own == {CHAT, COMPLETION}


@pytest.fixture(scope="module")
def server(own, tmp_path_factory):
    from served import served  # needs requests

    folder = tmp_path_factory.mktemp("withheld")
    companion = own.fitted(folder, "--passes", "2")
    with served(companion, own.checkpoint, folder / "log", "--abstain-below", "0.99", "--api-key", KEY) as one:
        one.headers["Authorization"] = f"Bearer {KEY}"
        yield one


def bodies(text):
    """A body for every route that answers."""
    messages = [{"role": "user", "content": text}]
    chat = {"model": "micro", "messages": messages, "max_tokens": 40}
    return {
        CHAT: chat,
        COMPLETION: {"model": "micro", "prompt": text, "max_tokens": 40},
        "/v1/chat/completions/batch": {**chat, "messages": [messages] * 2},
        "/v1/responses": {"model": "micro", "input": text, "max_output_tokens": 40},
        "/v1/messages": chat,
        "/v1/systemone": chat,
        "/generative_scoring": {"model": "micro", "query": text, "items": ["1", "2"], "label_token_ids": [5, 6]},
        "/inference/v1/generate": {"model": "micro", "token_ids": [5, 6], "sampling_params": {"max_tokens": 9}},
        "/invocations": chat,
    }


def test_a_withheld_answer_comes_by_no_route(own, server):
    for path, body in bodies(own.texts.iloc[0]).items():
        status, answer = server.ask(path, body)
        if path in (CHAT, COMPLETION):
            assert status == 200
            (choice,) = answer["choices"]
            assert choice["abstained"] is True
            assert not choice.get("text", choice.get("message", {}).get("content"))
        else:
            assert (status, answer["error"]["code"]) == (404, 404)
            assert f"{path} is off, since this server withholds answers" in answer["error"]["message"]
    for path in ("/v1/responses/resp_1", "/v1/responses/resp_1/cancel"):
        assert server.ask(path, {} if path.endswith("cancel") else None)[0] == 404
    assert set(bodies("")) | {path for path in WRITES if "{" in path} == WRITES
    status, schema = server.ask("/openapi.json")
    assert status == 200
    assert CHAT in schema["paths"]


LOGPROBS = {"logprobs": True, "top_logprobs": 3}
DRAWN = {CHAT: {"logprobs": True}, COMPLETION: {"logprobs": 0}}
STOPS = {"stop": ["1", "2", "3", "4"]}
SAID = [{"role": "user", "content": "1 + 1"}, {"role": "assistant", "content": "2"}]
NO_TOOL = {"tool_choice": "none", "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}
BOTH = {
    **{name: {name: 0.5} for name in ("frequency_penalty", "presence_penalty", "temperature", "top_p", "min_p")},
    **{name: {name: True} for name in ("use_beam_search", "ignore_eos", "echo", "add_special_tokens", "watermarking")},
    **{name: {name: True} for name in ("return_token_ids", "return_token_offsets", "return_mm_kwargs")},
    **{name: {name: "x"} for name in ("model", "user", "request_id", "session_id", "cache_salt")},
    **{name: {name: 2} for name in ("top_k", "min_tokens", "priority", "thinking_token_budget", "stream_interval")},
    **{name: {name: {"a": 1}} for name in ("ec_transfer_params", "vllm_xargs")},
    "max_tokens": {"max_tokens": 1},
    "n": {"n": 3, "temperature": 1},
    "seed": {"seed": 5},
    "stop": STOPS,
    "include_stop_str_in_output": {**STOPS, "include_stop_str_in_output": True},
    "stop_token_ids": {"stop_token_ids": [*range(20, 60)]},
    "stream": {"stream": False},
    "stream_options": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    "logit_bias": {"logit_bias": {"20": 5.0}},
    "allowed_token_ids": {"allowed_token_ids": [20, 21, 22]},
    "bad_words": {"bad_words": ["1", "2"]},
    "repetition_penalty": {"repetition_penalty": 1.5},
    "length_penalty": {"use_beam_search": True, "n": 2, "length_penalty": 0.5},
    "skip_special_tokens": {"skip_special_tokens": False},
    "spaces_between_special_tokens": {"spaces_between_special_tokens": False},
    "truncate_prompt_tokens": {"truncate_prompt_tokens": 20},
    "truncation_side": {"truncate_prompt_tokens": 20, "truncation_side": "left"},
    "prompt_logprobs": {"prompt_logprobs": 0},
    "response_format": {"response_format": {"type": "json_object"}},
    "structured_outputs": {"structured_outputs": {"regex": "[0-9]{3}"}},
    "routed_experts_prompt_start": {"routed_experts_prompt_start": 1},
    "mm_payload": {"mm_payload": "tensors"},
    "kv_transfer_params": {"kv_transfer_params": {"cocal_prompt": 0}},
    "repetition_detection": {"repetition_detection": {"max_pattern_size": 3, "min_count": 2}},
    "confidence_members": {"confidence_members": True},
    "confidence_every": {"confidence_every": 4},
    "confidence_stop_below": {"confidence_stop_below": 0.5},
}
OF_CHATS = {
    **{name: {name: True} for name in ("return_prompt_text",)},
    **{name: {name: False} for name in ("include_reasoning", "parallel_tool_calls", "add_generation_prompt")},
    **{name: {name: {}} for name in ("media_io_kwargs", "mm_processor_kwargs")},
    "messages": {"messages": SAID},
    "logprobs": DRAWN[CHAT],
    "top_logprobs": {**LOGPROBS, "return_token_ids": True},
    "logprob_token_ids": {"logprobs": True, "logprob_token_ids": [20, 21]},
    "return_tokens_as_token_ids": {**LOGPROBS, "return_tokens_as_token_ids": True},
    "max_completion_tokens": {"max_completion_tokens": 2},
    "tools": {**NO_TOOL, "tool_choice": {"type": "function", "function": {"name": "f"}}},
    "tool_choice": NO_TOOL,
    "reasoning_effort": {"reasoning_effort": "high"},
    "continue_final_message": {**{"messages": SAID, "add_generation_prompt": False}, "continue_final_message": True},
    "documents": {"documents": [{"title": "a", "text": "b"}]},
    "chat_template": {"chat_template": "{{ messages[0].content }}"},
    "chat_template_kwargs": {"chat_template_kwargs": {"enable_thinking": True}},
}
OF_COMPLETIONS = {
    "prompt": {"prompt": [[20, 21], [22, 23]]},
    "logprobs": DRAWN[COMPLETION],
    "logprob_token_ids": {"logprobs": 1, "logprob_token_ids": [20, 21]},
    "return_tokens_as_token_ids": {"logprobs": 3, "return_tokens_as_token_ids": True},
    "echo": {"echo": True, "logprobs": 3},
    "prompt_embeds": {"prompt_embeds": "AAAA"},
    "suffix": {"suffix": "x"},
}
SENT = {CHAT: BOTH | OF_CHATS, COMPLETION: BOTH | OF_COMPLETIONS}
"""What is sent for each field of the models of requests."""
REFUSED = {
    *("prompt_logprobs", "echo", "model", "confidence_every", "confidence_stop_below", "prompt_embeds", "suffix"),
    *("thinking_token_budget", "chat_template", "tools", "top_logprobs", "logprob_token_ids"),
    "return_tokens_as_token_ids",
}
"""Fields with which a request is refused; of `logprobs`, those of tokens that were not drawn."""


def withheld(path: str, index: int, name: str, body: dict) -> dict:
    """A withheld choice, whose message has this name."""
    refusal = "Withheld: the confidence is not at least 0.99, or not a usual one."
    message = {"role": "assistant", "content": None, "refusal": refusal, "confidence": None}
    return {
        **{"index": index, "finish_reason": "content_filter", "abstained": True, "confidence": None},
        **({name: message} if path == CHAT else {"text": "", "refusal": refusal}),
        **({"confidence_members": {}} if body.get("confidence_members") else {}),
        "logprobs": {"content": None, "confidence": None},
    }


def greedy(own, path: str, text: str) -> str:
    """What the model answers by itself, by transformers."""
    tokenizer, chat = own.policy.tokenizer, [{"role": "user", "content": text}]
    if path == CHAT:
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text, add_special_tokens=path != CHAT, return_tensors="pt")["input_ids"]
    found = own.policy.model.generate(ids, do_sample=False, max_new_tokens=40)[0, ids.shape[1] :]
    return tokenizer.decode(found, skip_special_tokens=True)


def test_every_field_of_a_request_is_known():
    """Another version of vLLM that adds one must be read."""
    from cocal.serving.server import ChatBody, CompletionBody

    for path, model in ((CHAT, ChatBody), (COMPLETION, CompletionBody)):
        assert SENT[path].keys() == model.model_fields.keys()
        assert all(field in more for field, more in SENT[path].items())


@pytest.mark.parametrize(("path", "field"), [(path, field) for path in SENT for field in sorted(SENT[path])])
def test_no_field_brings_out_what_is_withheld(own, server, path, field):
    """The whole answer is that to a request without the field, also its confidence and its count of tokens, so that
    nothing can be asked of the text."""
    question = own.texts.iloc[1]
    text, body = greedy(own, path, question), {**bodies(question)[path], "temperature": 0, **SENT[path][field]}
    assert len(text) > 3
    status, answer = server.ask(path, {name: value for name, value in body.items() if name != "stream_options"})
    assert text not in json.dumps(answer, ensure_ascii=False)
    assert status in ({400, 404} if field in REFUSED else {200}), answer
    if status != 200:
        return
    count = body.get("n", 1) * (2 if field == "prompt" else 1)
    assert {name: value for name, value in answer.items() if name not in ("id", "created")} == {
        "object": "chat.completion" if path == CHAT else "text_completion",
        "model": "micro",
        "choices": [withheld(path, k, "message", body) for k in range(count)],
        "usage": {"completion_tokens": None, "total_tokens": None, "prompt_tokens": answer["usage"]["prompt_tokens"]},
    }
    if not body.get("use_beam_search"):  # vLLM streams none
        events = server.stream(path, body)
        assert text not in json.dumps(events, ensure_ascii=False)
        assert not any((event.get("usage") or {}).get("completion_tokens") for event in events)
        found = sorted((event["choices"][0] for event in events if event["choices"]), key=lambda one: one["index"])
        assert found == [withheld(path, k, "delta", body) for k in range(count)]


def test_every_route_that_answers_asks_for_the_key(own, server):
    """Without abstention, too: see `test_routes_are_guarded_where_nothing_is_withheld`."""
    given = server.headers.pop("Authorization")
    try:
        for path, body in bodies(own.texts.iloc[0]).items():
            assert server.ask(path, body)[0] == 401, path
        assert server.ask("/v1/confidence", {"prompt": "1", "response": "1"})[0] == 401
        assert server.ask("/tokenize", {"model": "micro", "prompt": "1"})[0] == 401
        assert server.ask("/metrics")[0] == 401, "why answers ended, which tells of their words"
        assert server.ask("/health")[0] == 200
    finally:
        server.headers["Authorization"] = given


def test_routes_are_guarded_where_nothing_is_withheld(monkeypatch):
    """The same routes, in this process, of an application that does not abstain; they stay on."""
    from fastapi import FastAPI
    from starlette.testclient import TestClient
    from vllm.entrypoints.serve.middleware import authenticate

    from cocal.serving.server import secure

    monkeypatch.setattr(authenticate, "GUARDED_PREFIX", authenticate.GUARDED_PREFIX)
    app = FastAPI()
    for path in ("/invocations", "/new", "/ping"):
        app.add_api_route(path, lambda: "an answer", methods=["POST"])
    app.add_middleware(authenticate.AuthenticationMiddleware, tokens=[KEY])
    secure(app, withholds=False)
    client = TestClient(app)
    assert [client.post(path).status_code for path in ("/invocations", "/new", "/ping")] == [401, 401, 200]
    assert client.post("/invocations", headers={"Authorization": f"Bearer {KEY}"}).json() == "an answer"
