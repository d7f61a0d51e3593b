"""What is withheld cannot be had by any route of vLLM's server, and no route that answers does so without the key."""

import json

import numpy as np
import pytest

from own_rollouts import write_lines

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
    from served import served  # needs psutil

    folder = tmp_path_factory.mktemp("withheld")
    source = write_lines(folder / "mine.jsonl", own.rollouts, own.texts)
    assert own.fit(source, folder / "companion", "--passes", "2") == 0
    flags = ["--max-model-len", "192", "--abstain-below", "0.99", "--api-key", KEY, "--served-model-name", "micro"]
    with served(folder / "companion", own.checkpoint, folder / "log", *flags) as one:
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


@pytest.mark.parametrize(
    "more",
    [
        {"logprobs": True, "top_logprobs": 3, "return_token_ids": True},
        {"stop": ["1", "2", "3", "4"], "include_stop_str_in_output": True},
        {"kv_transfer_params": {"cocal_prompt": 0}, "prompt_logprobs": None},
        {"n": 3, "confidence_members": True},
        {"max_tokens": 1},
        {"echo": True, "continue_final_message": False},
        {"use_beam_search": True, "n": 2},
        {"tool_choice": "none", "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
        {"response_format": {"type": "json_object"}},
    ],
)
def test_no_parameter_brings_out_what_is_withheld(own, server, more):
    """Nothing of the answer, and no confidences of the members unless they were asked for."""
    body = {**bodies(own.texts.iloc[1])[CHAT], **more}
    status, answer = server.ask(CHAT, body)
    assert status == 200, answer
    assert answer.get("kv_transfer_params") is None
    shown = {"index", "finish_reason", "message", "confidence", "confidence_reason", "confidence_members", "abstained"}
    for choice in answer["choices"]:
        assert choice.keys() <= shown | {"logprobs"}
        assert choice["logprobs"] == {"content": None, "confidence": choice["confidence"]}
        message, same = choice["message"], {"role": "assistant", "confidence": choice["confidence"], "content": None}
        assert message == {**same, "refusal": message["refusal"]}
        assert ("confidence_members" in choice) == ("confidence_members" in more)
    if not {"use_beam_search", "prompt_logprobs"} & more.keys():  # vLLM streams neither
        for event in server.stream(CHAT, body):
            assert not any((one["delta"] or {}).get("content") for one in event["choices"])
            assert event.get("kv_transfer_params") is None


def test_log_probabilities_of_the_prompt_are_refused(own, server):
    """An assistant's beginning and one more character, repeated, would spell out what is withheld."""
    for path in (CHAT, COMPLETION):
        status, answer = server.ask(path, {**bodies(own.texts.iloc[1])[path], "prompt_logprobs": 0})
        assert status == 400
        assert "gives no prompt_logprobs" in answer["error"]["message"]


def test_every_route_that_answers_asks_for_the_key(own, server):
    """Without abstention, too: see `test_routes_are_guarded_where_nothing_is_withheld`."""
    given = server.headers.pop("Authorization")
    try:
        for path, body in bodies(own.texts.iloc[0]).items():
            assert server.ask(path, body)[0] == 401, path
        assert server.ask("/v1/confidence", {"prompt": "1", "response": "1"})[0] == 401
        assert server.ask("/tokenize", {"model": "micro", "prompt": "1"})[0] == 401
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


def test_answers_that_are_shown_carry_no_confidences_of_members(own, server):
    """Those of the engine are the server's own, whether or not an answer is withheld."""
    status, answer = server.ask(CHAT, {**bodies(own.texts.iloc[0])[CHAT], "n": 8})
    assert status == 200
    assert "cocal" not in json.dumps(answer)
    assert np.isfinite([one["confidence"] for one in answer["choices"] if one["confidence"] is not None]).all()
