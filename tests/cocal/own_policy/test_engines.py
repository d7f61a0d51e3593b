"""Files as engines write them: read whole, in order, and with what is no response left out and counted."""

import json
from collections import Counter

import numpy as np
import pytest

import engine_lines
from cocal.errors import ContractError
from cocal.own_policy.rollouts import experience_of, find
from cocal.own_policy.states import Encoder
from dumps import GROUP
from hand_rows import LINE, lines, noted

WRITERS = {
    "NeMo-RL's JSON lines": lambda own, folder: engine_lines.write_nemo(folder, own.rollouts, 0),
    "ROLL's columns": lambda own, folder: engine_lines.write_roll(folder, own.rollouts, own.texts),
    "AReaL's trajectories": lambda own, folder: engine_lines.write_areal(folder, own.rollouts, own.policy.tokenizer),
    "SkyRL's evaluations": lambda own, folder: engine_lines.write_skyrl(folder, own.rollouts, own.policy.tokenizer),
}


def row(**more) -> dict:
    return {"prompt": "What is 2 + 3?", "response": "It is 5.", "correct": True, "step": 4} | more


def verl(**more) -> dict:
    return {"input": "user\n1 + 1\nassistant\n", "output": "It is 2.", "gts": "2", "score": 1.0, "step": 1} | more


@pytest.mark.parametrize("kind", WRITERS)
def test_rollouts_of_engines_become_experience(tmp_path, own, kind):
    found = find([WRITERS[kind](own, tmp_path / "rollouts")])
    assert found.format == kind
    samples = list(found.samples({}, Counter()))
    table, given = experience_of(iter(samples), Encoder(own.policy, max_response_length=20)).rows, own.rollouts
    spacing = 5 if "SkyRL" in kind else 1
    assert (table["step"] // spacing).tolist() == given["step"].tolist()
    assert table["correct"].tolist() == given["correct"].tolist()
    np.testing.assert_array_equal(table["group_accuracy"], given["group_accuracy"])
    assert table.groupby(["step", "question_id"]).size().eq(GROUP).all()
    if "NeMo" in kind:
        for name in ("prompt_ids", "response_ids"):
            assert [ids.tolist() for ids in table[name]] == [[*map(int, ids)] for ids in given[name]]
    if kind[0] in "NS":  # by their ids or stop reasons
        assert table["truncated"].tolist() == given["truncated"].tolist()
    prompts = [encoded.tolist() for encoded in table["prompt_ids"]]
    assert "ROLL" in kind or prompts == [[*map(int, ids)] for ids in given["prompt_ids"]]


def test_nemo_s_conversations_and_empty_responses_are_left_out(tmp_path):
    logged = {"content": ["c"], "rewards": [1.0], "input_lengths": [6], "token_ids": [[5, 6, 7, 8, 9, 4, 0, 0]]}
    masks = [[0, 0, 1, 1, 1, 1, 0, 0], [0, 0, 1, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]]
    rows = [logged | {"token_loss_mask": [mask], "idx": k} for k, mask in enumerate(masks)]
    filtered = rows[0] | {"rewards": [0.0], "filtered_rewards": [1.0]}
    found, notes = noted(lines(tmp_path / "train_data_step7.jsonl", *rows, filtered))
    assert [(one.prompt_ids.tolist(), one.response_ids.tolist(), one.step) for one in found] == [
        ([5, 6], [7, 8, 9, 4], 7)
    ] * 2
    assert found[1].label == 1.0, "the other rewards are those of the step before its groups were filtered"
    assert notes == [
        "1 row left out: its mask excludes tokens that the policy did not write",
        "1 row left out: its response is empty",
    ]
    path = lines(tmp_path / "train_data_step8.jsonl", rows[0] | {"token_loss_mask": 7})
    with pytest.raises(ContractError, match=r"step8.jsonl: line 1: field 'token_loss_mask' is 7"):
        noted(path)


def test_roll_s_columns_must_be_equally_long(tmp_path):
    path = lines(
        tmp_path / "rollout_dump_data.step_0.jsonl", {"prompt": ["p"], "responses": ["a", "b"], "scores": [1, 0]}
    )
    with pytest.raises(ContractError, match=r"line 1: its columns have several lengths"):
        noted(path)


def test_files_about_the_run_are_no_rollouts(tmp_path):
    lines(tmp_path / "1.jsonl", row(), row(correct=False))
    for name in ("aggregated_results.jsonl", "run__1_metadata.jsonl"):
        lines(tmp_path / name, {"eval/all/avg_score": 0.5})
    assert len(noted(tmp_path)[0]) == 2


MULTIPLE = [{"role": "assistant", "content": "Let me see."}, {"role": "tool", "content": "5"}]
IMAGE = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "How many?"}]}]
TEMPLATED = "It is <tool_call>5</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>5"
PLAIN = "5 ?\nuser\n<tool_response>\n5\n</tool_response>\nassistant\nIt is 5."
LLAMA = "import sympyipython\n\n5assistant\n\nIt is 5."
USELESS = {
    "several messages": (row(response=MULTIPLE), "its response has several messages"),
    "a call": (row(response=[MULTIPLE[0] | {"tool_calls": [{"id": "1"}]}]), "its response calls a tool"),
    "an image": (row(prompt=IMAGE), "its messages have images or other media"),
    "a mask": (LINE | {"response_mask": [1, 0]}, "its mask excludes tokens that the policy did not write"),
    "a mask of both": (LINE | {"loss_mask": [0, 0, 0, 0, 1]}, "its mask excludes tokens that the policy did not write"),
    "a template's turns": (
        row(response=TEMPLATED),
        "its response has several turns, such as the words of a tool",
    ),
    "verl's turns": (verl(output=PLAIN), "its response has several turns, such as the words of a tool"),
    "verl's turns of Llama": (verl(output=LLAMA), "its response has several turns, such as the words of a tool"),
    "open-instruct's tools": (
        {"prompt_tokens": [5], "response_tokens": [6], "reward": 1.0, "request_info": {"tool_calleds": True}},
        "it called a tool",
    ),
    "no text": (verl(output=""), "its response is empty"),
    "no ids": (LINE | {"response_ids": []}, "its response is empty"),
    "no words": (row(response=[{"role": "assistant", "content": ""}]), "its response is empty"),
}


@pytest.mark.parametrize("name", USELESS)
def test_what_is_no_single_response_is_left_out_and_counted(tmp_path, name):
    useless, reason = USELESS[name]
    useful = {
        "verl": verl(),
        "open": {"prompt_tokens": [5], "response_tokens": [6], "reward": 0.0, "request_info": {"tool_calleds": False}},
        "a ma": LINE | {"response_mask": [1, 1]},
        "no i": LINE,
        "no t": verl(),
    }.get(name[:4], row())
    found, notes = noted(lines(tmp_path / "1.jsonl", useful, useless, useless, useful))
    assert [sample.where.rpartition(" ")[2] for sample in found] == ["1", "4"]
    assert notes == [f"2 rows left out: {reason}"]


def test_a_text_about_turns_is_a_response(tmp_path):
    """A first marker belongs to the response, and words that are no roles of a line to an answer."""
    said = ["<|im_start|>assistant\nIt is 5.<|im_end|>", "The user\nasks an assistant", "tool, user and assistant"]
    found, notes = noted(lines(tmp_path / "1.jsonl", *(row(response=text) for text in said)))
    assert (len(found), notes) == (3, [])


def test_labels_that_contradict_each_other_are_told(tmp_path):
    """acc is read; a score that is shaped, such as by a length penalty, says nothing about correctness."""
    pairs = [(1, -1.0), (0, 1.0), (True, 0), (1, 1.0), (0, 0.0), (0, -1.0), (1, 0.25), (0, 0.5)]
    path = lines(tmp_path / "1.jsonl", *(verl(acc=acc, score=score) for acc, score in pairs))
    found, notes = noted(path)
    assert [sample.label for sample in found] == [float(acc) for acc, _ in pairs]
    assert notes == ["in 3 of 8 rows 'score' contradicts 'acc', which is read (--field reward=score reads the other)"]
    found, notes = noted(path, reward="score")
    assert ([sample.label for sample in found], notes) == ([float(score) for _, score in pairs], [])


def test_a_field_that_the_first_line_lacks_is_read_in_the_others(tmp_path):
    notes: Counter = Counter()
    path = lines(tmp_path / "1.jsonl", row(), row(group=3, truncated=True), row(group=4, finish_reason="abort"))
    found = list(find([path]).samples({}, notes))
    assert [(sample.group, sample.truncated) for sample in found] == [(None, None), (3, True)]
    assert any("truncated" in note and "finish_reason" in note for note in notes if note.startswith("fields"))


@pytest.mark.parametrize("name", ["{}", "step_{}", "global_step_{}/rollouts"])
def test_folders_lie_in_the_order_of_their_numbers(tmp_path, name):
    """As a shell lists them: 0, 1, 10, 2."""
    for number in (0, 1, 10, 2):
        (tmp_path / name.format(number)).mkdir(parents=True)
        lines(tmp_path / name.format(number) / "rows.jsonl", row(question_id=str(number), step=None))
    folders = [tmp_path / name.format(number) for number in (0, 1, 10, 2)]
    for places in (folders, [folder / "rows.jsonl" for folder in folders]):
        assert [sample.question_id for sample in noted(*places)[0]] == ["0", "1", "2", "10"]


def test_folders_of_other_names_lie_as_they_are_given(tmp_path):
    for name in ("second", "first"):
        (tmp_path / name).mkdir()
        lines(tmp_path / name / "1.jsonl", row(question_id=name, step=None))
    found, _ = noted(tmp_path / "second", tmp_path / "first")
    assert [sample.question_id for sample in found] == ["second", "first"]


def test_scoring_says_why_a_line_has_no_response(tmp_path, own, capsys):
    source = lines(tmp_path / "in.jsonl", row(), row(response=MULTIPLE))
    assert own.score(source, tmp_path / "out.jsonl") == 0
    assert "no confidence for 1: its response has several messages" in capsys.readouterr().out
    _, scored = (json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines())
    assert (scored["confidence"], scored["confidence_reason"]) == (None, "its response has several messages")
    masked = LINE | {"response_mask": [1, 1]}
    source = lines(tmp_path / "masked.jsonl", masked)
    assert own.score(source, tmp_path / "out.jsonl") == 0
    (scored,) = (json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines())
    assert 0 < scored["confidence"] < 1
