"""The parts of `cocal serve` that need no vLLM: what is refused at the start, its command, confidences and bodies."""

import asyncio
import json
import re
import sys
from contextlib import nullcontext
from importlib.metadata import EntryPoint, EntryPoints
from itertools import pairwise
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from cocal.confidence.companion import Companion
from cocal.engines.states import BELOW, TRAJECTORY, asking
from cocal.errors import ConfigError, ContractError
from cocal.fitting.models import Checkpoint
from cocal.models.loading import read_vocabulary
from cocal.rollouts.encoding import Encoder
from cocal.serving import launch
from cocal.serving.bodies import ConfidenceBody, other_mode
from cocal.serving.launch import Served, command, environment
from cocal.serving.scoring import (
    CONFIDENCES,
    CUT,
    FAILED,
    NO_END,
    NO_ROOM,
    NOT_FOLLOWED,
    OTHER_MODE,
    RECORDER,
    REPEATED,
    STOPPED,
    UNSURE,
    FollowedEngine,
    Recorder,
    Scorer,
)
from cocal.serving.scoring import Confidence as V
from micro import change_json, own_copy
from own_rollouts import run

NO_CHAT = "list of messages that have a text as 'role' and 'content'"
MEMBERS = [("binary", 42), ("binary", 137), ("group", 42)]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--enable-lora"], "--enable-lora: this flag of vLLM cannot be given here: the companion was fitted for"),
        (["--speculative_config.method=ngram"], "a speculative method computes some that are thrown away"),
        (["--spec-method", "ngram"], "--spec-method: this flag of vLLM cannot be given here: the states of all"),
        (["--worker-cls", "mine"], "the companion has a worker of its own"),
        (["--worker-c=mine"], "--worker-c=mine: this flag of vLLM cannot be given here: the companion has a worker"),
        (["--kv-offloading-size", "4"], "the companion is a KV connector"),
        (["--config", "flags.yaml"], "flags in a file would not be looked at"),
        (["--additional-config={}"], "it names the companion's block"),
        (["--kv-transfer-config", "{}"], "the companion is a KV connector"),
        (["--pipeline-parallel-size=2"], "use --tensor-parallel-size"),
        (["--trust-remote-code"], "code that a checkpoint brings is never run"),
        (["--abstain-below", "0.5", "--enable-prompt-tokens-details"], "whether it begins as such an answer"),
        (["--target", "group"], "the companion has no target 'group'; it was fitted for binary"),
        (["--abstain-below", "2"], "is not a number from 0 to 1"),
    ],
)
def test_flags_that_do_not_fit_are_refused(own, capsys, flags, message):
    with pytest.raises(SystemExit) if "2" in flags else nullcontext():
        assert run("serve", "--companion", own.companion, "--model", own.checkpoint, *flags) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("num_hidden_layers", 3, "number of blocks is 3"),
        ("model_type", "llama", "type is llama"),
    ],
)
def test_a_companion_of_another_model_is_refused_with_the_remedy(own, tmp_path, capsys, name, value, message):
    other = own_copy(own.checkpoint, tmp_path / "other")
    change_json(other / "config.json", **{"layer_types": None, name: value})
    assert run("serve", "--companion", own.companion, "--model", other) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "give that model, or fit a companion for this one (cocal fit)" in said


def test_a_companion_of_another_block_or_width_is_refused(own):
    config = Companion.from_pretrained(own.companion).config
    facts = Checkpoint.find(str(own.checkpoint)).architecture
    config.check_model(facts)
    for change, message in (
        ({"layer": 2}, "reads block 2, but the model has blocks 0 to 1"),
        ({"inputs": 32}, "width"),
    ):
        spec = config.spec.model_copy(update=change)
        with pytest.raises(ContractError, match=message):
            config.model_copy(update={"spec": spec}).check_model(facts)


def test_without_vllm_or_with_another_version_the_remedy_is_named(own, monkeypatch, capsys):
    monkeypatch.setattr(launch, "find_spec", lambda name: None)
    assert run("serve", "--companion", own.companion, "--model", own.checkpoint) == 2
    assert "vLLM is not installed for this Python: in a checkout, `pip install '.[serve]'`" in capsys.readouterr().err
    monkeypatch.setattr(launch, "find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(__version__="0.33.1"))
    assert run("serve", "--companion", own.companion, "--model", own.checkpoint) == 2
    assert "install vllm==0.32.0" in capsys.readouterr().err


def test_the_command_of_vllm_reads_the_companion_s_block_and_the_user_s_flags_win(own):
    config = Companion.from_pretrained(own.companion).config
    checkpoint = Checkpoint.find(str(own.checkpoint))
    served = Served(str(own.companion), abstain_below=0.25)
    words = command(served, config, checkpoint, ["--dtype=bfloat16", "--port", "8001"])
    value = dict(pairwise(words))
    assert json.loads(value["--additional-config"]) == {"cocal_layers": [1]}
    assert value["--model-impl"] == "vllm"
    assert dict(pairwise(command(served, config, checkpoint, [], "transformers")))["--model-impl"] == "transformers"
    extra = json.loads(value["--kv-transfer-config"])["kv_connector_extra_config"]
    assert Served(**extra) == served
    assert ("--dtype" in value, value["--port"]) == (False, "8001")
    assert "--no-enable-chunked-prefill" in words
    assert "--no-enable-chunked-prefill" not in command(served, config, checkpoint, ["--max-num-batched-tokens", "64"])
    assert value["--served-model-name"] == str(own.checkpoint)
    assert json.loads(value["--default-chat-template-kwargs"]) == {"enable_thinking": False}
    template = r"{{ '\n' }}{% for m in messages %}{{ m.content }}{% endfor %} ü"
    words = command(served, config.model_copy(update={"template": template}), checkpoint, [])
    with open(words[words.index("--chat-template") + 1], encoding="utf-8") as file:  # noqa: PTH123
        assert file.read() == template


def test_other_plugins_of_vllm_stay_loaded(monkeypatch):
    groups = {"vllm.general_plugins": ["mine"], "vllm.platform_plugins": ["card"]}
    monkeypatch.setattr(launch, "entry_points", lambda group: SimpleNamespace(names=set(groups.get(group, ()))))
    assert environment({})["VLLM_PLUGINS"] == "card,cocal,mine"
    assert environment({"VLLM_PLUGINS": "mine"})["VLLM_PLUGINS"] == "cocal,mine"
    assert environment({"VLLM_NO_USAGE_STATS": "0"})["VLLM_NO_USAGE_STATS"] == "0"
    assert environment({"VLLM_USE_V2_MODEL_RUNNER": "1"})["VLLM_USE_V2_MODEL_RUNNER"] == "0"


@pytest.mark.vllm
def test_no_server_starts_without_the_plugin(monkeypatch):
    """vLLM serves on where a plug-in cannot be imported, and answers that are to be withheld would be handed out."""
    launch.check_vllm()
    lost = EntryPoint("cocal", "cocal.serving.lost:Plugin", launch.ENDPOINTS)
    monkeypatch.setattr(launch, "entry_points", lambda group: EntryPoints([lost]))
    with pytest.raises(ConfigError, match=r"cannot be loaded \(No module named 'cocal.serving.lost'\); install"):
        launch.check_vllm()


class Engine:
    """An engine whose outputs are known, one list for each request in their order; it notes what it is asked."""

    def __init__(self, *outputs):
        self.outputs, self.asked, self.closed = iter(outputs), [], 0

    async def generate(self, prompt, sampling_params, request_id, **options):
        self.asked.append((request_id, prompt, sampling_params))
        try:
            for output in next(self.outputs):
                await asyncio.sleep(0)
                yield output
        finally:
            self.closed += 1


def output(ids, finish=None, found=None, stop=None, trajectory=None):
    """A request output of vLLM with one choice."""
    one = SimpleNamespace(index=0, token_ids=ids, finish_reason=finish, stop_reason=stop)
    told = {name: value for name, value in {CONFIDENCES: found, TRAJECTORY: trajectory}.items() if value is not None}
    return SimpleNamespace(prompt_token_ids=[5, 6], outputs=[one], kv_transfer_params=told or None)


def scorer(engine=None):
    return Scorer(engine, MEMBERS, "binary", frozenset({2, 7}), 12)


def test_the_confidence_is_the_mean_over_the_seeds_of_one_target_and_what_has_no_end_has_none():
    found = [0.1, 0.3, 0.9]
    expected = V(0.2, None, {"binary-42": 0.1, "binary-137": 0.3, "group-42": 0.9})

    def confidence(ids, finish="stop", prompt=3, found=found, stop=None):
        return asyncio.run(scorer().generated(output(ids, finish, found, stop), [5] * prompt, ids))

    assert confidence([8, 2]) == confidence([2]) == expected
    assert confidence([8, 7]).value == 0.2  # a second end token
    assert confidence([8, 9], "length") == expected._replace(reason=CUT)
    assert confidence([8, 9], "length", prompt=10) == V(None, NO_ROOM)
    assert confidence([8, 9], "repetition", stop="repetition_detected") == expected._replace(reason=REPEATED)
    assert confidence([8, 2], found=[0.1, float("nan"), 0.9]) == V(None, FAILED)
    assert confidence([8]) == expected._replace(reason=STOPPED)  # by a token that the request named
    assert confidence([8, 2], prompt=9) == expected
    assert confidence([8, 2], prompt=10) == V(None, NO_ROOM)
    assert confidence([8, 2], found=None) == V(None, FAILED)
    assert confidence([8], "length", stop=BELOW) == expected._replace(reason=UNSURE)
    assert scorer().of(None) == V(None, FAILED)
    three = Scorer(None, [("binary", seed) for seed in (42, 137, 500)], "binary", frozenset({2}), 12)
    assert three.of(output([2], "stop", [0.1, 0.2, 0.9])).value == pytest.approx(0.4)
    for prompt, response, reason in (([5], [], NO_END), ([5] * 11, [2], NO_ROOM)):
        assert asyncio.run(scorer().score(prompt, response)) == V(None, reason)


@pytest.mark.vllm
def test_a_response_that_a_stop_string_ended_is_read_once_more():
    """The server finds it in the text, and the engine is told to forget the request."""
    engine = Engine([output([8]), output([9], "stop", stop="word")], [output([1], "length", [0.2, 0.6, 0.9])])
    seen, found = answered(engine, "DELTA", 1, closed=2)
    assert len(seen) == 2
    assert found[0] == V(0.4, STOPPED, {"binary-42": 0.2, "binary-137": 0.6, "group-42": 0.9})
    assert engine.asked[1][1] == {"prompt_token_ids": [5, 6, 8, 9]}
    assert engine.asked[1][2].extra_args == asking(2)


def test_the_reason_of_a_call_is_that_of_all_its_confidences():
    recorder = Recorder(scorer(), OTHER_MODE)
    recorder._confidences = {0: V(0.4), 1: V(None, CUT), 2: V(0.4, STOPPED)}
    assert [recorder.confidence(k).reason for k in range(3)] == [OTHER_MODE, CUT, STOPPED]


@pytest.mark.parametrize(
    ("given", "other"),
    [
        ({"effort": "high"}, False),
        ({"effort": "high", "enable_thinking": False, "documents": None}, False),
        ({"effort": "high", "enable_thinking": 0}, True),  # which a template that asks `is false` takes for true
        ({"effort": "high", "day": ""}, True),
        ({"effort": "high", "add_generation_prompt": 1}, True),
        ({"effort": "low"}, True),
        ({"thinking": True}, True),
        ({}, True),
    ],
)
def test_a_chat_is_in_another_mode_where_a_value_of_its_template_differs(given, other):
    params = SimpleNamespace(chat_template_kwargs={"add_generation_prompt": True, "thinking": False} | given)
    asked = SimpleNamespace(with_defaults=lambda defaults: params)
    body = SimpleNamespace(messages=[{"role": "user"}], build_chat_params=lambda *_: asked)
    assert other_mode(body, {"enable_thinking": False, "effort": "high"}, None) is other


def answered(engine, kind, n, closed=None, **more):
    """What an API sees of an engine that gives n choices, and their confidences and one more."""

    async def answer():
        recorder = Recorder(scorer(engine))
        RECORDER.set(recorder)
        kind_of_output = SimpleNamespace(name=kind)
        parameters = SimpleNamespace(n=n, seed=3, extra_args={"a": 1}, top_k=5, top_p=1, output_kind=kind_of_output)
        followed = FollowedEngine(engine)
        seen = [one async for one in followed.generate({"cache_salt": "s"}, parameters, "request", **more)]
        assert (parameters.n, parameters.extra_args) == (n, {"a": 1})  # the caller's own stay as they are
        assert followed.closed == engine.closed == (closed or n)
        return seen, [recorder.confidence(k) for k in range(n + 1)]

    return asyncio.run(answer())


def test_a_response_has_its_verdict_when_it_ends_and_an_adapter_s_is_not_followed():
    parts = [output([8]), output([2], "stop", [0.2, 0.6, 0.9])]
    engine = Engine(parts, parts)
    seen, found = answered(engine, "DELTA", 1)
    assert seen == parts
    assert [(one.value, one.reason) for one in found] == [(0.4, None), (None, NOT_FOLLOWED)]
    ((name, prompt, asked),) = engine.asked
    assert (name, prompt, asked.n, asked.seed) == ("request", {"cache_salt": "s"}, 1, 3)
    assert asked.extra_args == {"a": 1, **asking()}
    assert (asked.top_k, asked.top_p) == (5, 1)
    engine = Engine(parts)
    seen, found = answered(engine, "DELTA", 1, lora_request="one")
    assert (seen, found) == (parts, [V(None, NOT_FOLLOWED)] * 2)
    assert engine.asked[0][2].extra_args == {"a": 1}


def test_the_trajectory_of_a_call_is_asked_for_and_recorded():
    """Of outputs within a response the latest, of the last one all that was read."""
    ended = output([2], "stop", [0.2, 0.6, 0.9], trajectory=[0.7])
    engine = Engine([output([8]), output([9], trajectory=(2, 0.7)), ended])
    recorder = Recorder(scorer(), every=2, below=0.1)

    async def answer():
        RECORDER.set(recorder)
        parameters = SimpleNamespace(n=1, seed=None, extra_args=None)
        return [recorder.grown.pop(0, None) async for _ in FollowedEngine(engine).generate({}, parameters, "request")]

    assert asyncio.run(answer()) == [None, (2, 0.7), None]
    assert [one.extra_args for _, _, one in engine.asked] == [asking(every=2, below=0.1)] != [asking()]
    assert recorder.confidence(0).trajectory == {"every": 2, "tokens": 3, "values": [0.7]}


def test_a_response_to_another_prompt_of_a_call_has_a_verdict_of_its_own():
    """Their choices are numbered on; those of several to one prompt need vLLM (`_together`)."""
    both = [output([8, 2], "stop", [0.1, 0.3, 0.9])], [output([8, 7], "stop", [0.5, 0.7, 0.9])]
    followed, recorder = FollowedEngine(Engine(*both)), Recorder(scorer())

    async def answer():
        RECORDER.set(recorder)
        for _ in both:
            parameters = SimpleNamespace(n=1, seed=None, extra_args=None)
            async for _ in followed.generate({}, parameters, "request"):
                pass

    asyncio.run(answer())
    assert [recorder.confidence(k).value for k in range(2)] == pytest.approx([0.2, 0.6])
    assert recorder.confidence() == recorder.confidence(1)


def test_what_was_read_of_a_growing_choice_is_known_when_its_output_is_taken():
    """And not before, since vLLM reads on in the outputs of one choice while an event of another is sent."""
    recorder = Recorder(scorer(), every=2)

    async def outputs():
        yield output([8, 9], trajectory=(2, 0.7))

    async def taken():
        followed = recorder.follow(outputs(), 5)
        waiting = await anext(followed)
        assert recorder.grown == {}
        waiting.outputs[0].index = 1
        assert [one async for one in recorder.growing(given(waiting), 4)] == [waiting]

    async def given(one):
        yield one

    asyncio.run(taken())
    assert recorder.grown == {5: (2, 0.7)}


@pytest.mark.vllm
@pytest.mark.parametrize("kind", ["DELTA", "FINAL_ONLY"])
def test_each_choice_is_a_request_of_its_own(kind):
    found = [0.1, 0.3, 0.9], [0.5, 0.6, 0.7]
    parts = [[output([8]), output([2], "stop", found[0])], [output([9]), output([9, 9], "length", found[1])]]
    whole_ones = [[output([8, 2], "stop", found[0])], [output([9, 9, 9], "length", found[1])]]
    engine = Engine(*(parts if kind == "DELTA" else whole_ones))
    seen, found = answered(engine, kind, 2)
    outputs = [(one.index, one.token_ids) for part in seen for one in part.outputs]
    if kind == "DELTA":
        assert sorted(outputs) == [(0, [2]), (0, [8]), (1, [9]), (1, [9, 9])]
    else:
        assert (len(seen), outputs) == (1, [(0, [8, 2]), (1, [9, 9, 9])])
    assert [(one.value, one.reason) for one in found] == [(0.2, None), (0.55, CUT), (None, NOT_FOLLOWED)]
    asked = [(name, one.n, one.seed, one.extra_args) for name, _, one in engine.asked]
    assert asked == [(f"{k}_request", 1, 3 + k, {"a": 1, **asking()}) for k in range(2)]


def test_rows_of_texts_chats_and_ids_become_token_ids(own):
    policy = own.policy
    reader = read_vocabulary(own.checkpoint, plain=True)
    question = own.texts.iloc[0]
    rows = [
        {"prompt": question, "response": "19"},
        {"messages": [{"role": "user", "content": question}], "response": "19"},
        {"prompt_ids": [5, 6], "response_ids": [8, min(policy.ends)]},
        {"prompt": question, "response": "19", "truncated": True},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": question}]}], "response": "19"},
    ]
    found = Encoder(reader._replace(context=100)).encode(ConfidenceBody(rows=rows).samples())
    assert found[0].prompt.tolist() == found[1].prompt.tolist() == found[4].prompt.tolist()
    assert [one.response[-1] in policy.ends for one in found] == [True, True, True, False, True]
    assert [one.exact for one in found] == [False, False, True, False, False]
    with pytest.raises(ContractError, match=re.escape("rows[0]: prompt and response have")):
        Encoder(reader._replace(context=10)).encode(ConfidenceBody(rows=rows).samples())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "body: give exactly one of prompt, messages, prompt_ids"),
        ({"prompt": "", "response": "1"}, "which is not empty"),
        ({"prompt": "1", "messages": [{}], "response": "1"}, "exactly one of prompt, messages"),
        ({"rows": [{"prompt": "1", "response": "1"}, {"prompt": "1"}]}, "exactly one of response, response_ids"),
        ({"messages": [{"role": "user"}], "response": "1"}, NO_CHAT),
        ({"prompt_ids": [-1], "response": "1"}, "is no token id"),
        ({"prompt_ids": [True], "response": "1"}, "valid integer"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}], "response": "1"},
            NO_CHAT,
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}], "response": "1"},
            NO_CHAT,
        ),
        ({"rows": [], "prompt": "1"}, "one response, or several in rows"),
        ({"rows": []}, "rows has 0 responses"),
        ({"prompt": "1", "response": "1", "prmopt": "1"}, "Extra inputs are not permitted"),
    ],
)
def test_a_wrong_body_is_refused_with_its_place(body, message):
    with pytest.raises((ContractError, ValidationError), match=re.escape(message)):
        ConfidenceBody(**body).samples()
