"""Files as engines write them: read whole, in order, and with what is no response left out and counted."""

import json
from collections import Counter

import numpy as np
import pytest

from cocal.errors import ContractError
from cocal.rollouts.encoding import Encoder
from cocal.rollouts.experience import experience_of
from cocal.rollouts.files import find
from cocal.rollouts.format import Reading
from cocal.rollouts.sample import MASKED
from hand_rows import LINE, lines, noted


def row(**more) -> dict:
    return {"prompt": "What is 2 + 3?", "response": "It is 5.", "correct": True, "step": 4} | more


def verl(**more) -> dict:
    return {"input": "user\n1 + 1\nassistant\n", "output": "It is 2.", "gts": "2", "score": 1.0, "step": 1} | more


def test_files_about_the_run_are_no_rollouts(tmp_path):
    lines(tmp_path / "1.jsonl", row(), row(correct=False))
    lines(tmp_path / "run__1_metadata.jsonl", {"eval/all/avg_score": 0.5})
    assert len(noted(tmp_path)[0]) == 2


MULTIPLE = [{"role": "assistant", "content": "Let me see."}, {"role": "tool", "content": "5"}]
IMAGE = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "How many?"}]}]
TEMPLATED = "It is <tool_call>5</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>5"
PLAIN = "5 ?\nuser\n<tool_response>\n5\n</tool_response>\nassistant\nIt is 5."
LLAMA = "import sympyipython\n\n5assistant\n\nIt is 5."
SEVERAL = "it has several messages or responses; give a line for each response (docs/formats.md)"
MEDIA, EMPTY = "it has images or other media", "its response is empty"
TURNS = "its response has several turns, such as the words of a tool"
USELESS = {
    "several messages": (row(), row(response=MULTIPLE), SEVERAL),
    "several responses": (row(), row(response=["It is 5.", "6"]), SEVERAL),
    "several messages as JSON": (row(), row(response=json.dumps(MULTIPLE)), SEVERAL),
    "a call": (row(), row(response=[MULTIPLE[0] | {"tool_calls": [{"id": "1"}]}]), "its response calls a tool"),
    "turns beside ids": (LINE, LINE | {"response": TEMPLATED}, TURNS),
    "own lines' turns": (row(), row(response=PLAIN), TURNS),
    "a template's turns": (row(), row(response=TEMPLATED), TURNS),
    "verl's turns": (verl(), verl(output=PLAIN), TURNS),
    "verl's turns of Llama": (verl(), verl(output=LLAMA), TURNS),
    "images beside": (row(), row(images=["a.png"]), MEDIA),
    "an image": (row(), row(prompt=IMAGE), MEDIA),
    "a mask": (LINE | {"response_mask": [1, 1]}, LINE | {"response_mask": [1, 0]}, MASKED),
    "a mask of both": (LINE | {"loss_mask": [0, 0, 0, 1, 1]}, LINE | {"loss_mask": [0, 0, 0, 0, 1]}, MASKED),
    "no text": (verl(), verl(output=""), EMPTY),
    "no ids": (LINE, LINE | {"response_ids": []}, EMPTY),
    "no words": (row(), row(response=[{"role": "assistant", "content": ""}]), EMPTY),
}
"""Rows that are read and rows that are left out, and the reason."""


@pytest.mark.parametrize("name", USELESS)
def test_what_is_no_single_response_is_left_out_and_counted(tmp_path, name):
    useful, useless, reason = USELESS[name]
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


def test_every_field_that_may_be_a_label_is_compared(tmp_path):
    """Truths, words and rewards of 1, 0 and -1, also beside a label of the same meaning."""
    given = [{"acc": 0}, {"is_correct": "Yes"}, {"reward": "0.0"}, {"score": -1}, {"acc": "maybe"}, {"reward": 0.5}]
    found, notes = noted(lines(tmp_path / "1.jsonl", *(row(**one) for one in given)))
    assert all(sample.label == 1.0 for sample in found)
    assert sorted(note.split()[5] for note in notes) == ["'acc'", "'reward'", "'score'"]


def test_what_stands_beside_ids_is_no_response(tmp_path):
    given = [{"finish": 1}, [{"role": "assistant", "content": "5", "reasoning_content": "2 + 3"}], "It is 5.", None]
    found, _ = noted(lines(tmp_path / "1.jsonl", *(LINE | {"response": response} for response in given)))
    assert [(one.response, one.response_ids.tolist()) for one in found] == [(None, LINE["response_ids"]) for _ in given]


def test_a_chat_may_be_the_text_of_its_json(tmp_path):
    chat = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "What is 2 + 3?"}]
    given = row(prompt=json.dumps(chat)), row(messages=json.dumps(chat, indent=1)), row(prompt='[{"x": 1}] is what?')
    found, _ = noted(lines(tmp_path / "1.jsonl", *given))
    assert [sample.prompt for sample in found] == [tuple(chat), tuple(chat), '[{"x": 1}] is what?']
    with pytest.raises(ContractError, match="field 'prompt' is a chat as Python shows it"):
        noted(lines(tmp_path / "2.jsonl", row(prompt=str(chat))))


def test_the_field_that_gives_way_is_named(tmp_path):
    notes: Counter = Counter()
    list(find([lines(tmp_path / "1.jsonl", row(input="user\nWhat is 2 + 3?\nassistant\n"))]).samples(Reading(), notes))
    assert "fields: input, response, correct, step; only where these are missing: prompt" in notes


def test_what_contradicts_the_reason_of_an_end_is_told(tmp_path):
    pairs = [(False, "length"), (True, "stop"), (True, "length"), (False, "stop")]
    given = (row(truncated=cut, finish_reason=reason) for cut, reason in pairs)
    found, notes = noted(lines(tmp_path / "1.jsonl", *given))
    assert [sample.truncated for sample in found] == [cut for cut, _ in pairs]
    assert notes == [
        "in 1 of 4 rows truncated=False contradicts finish_reason='length', and is read",
        "in 1 of 4 rows truncated=True contradicts finish_reason='stop', and is read",
    ]


def test_several_versions_of_the_weights_in_one_response_are_counted(tmp_path):
    versions = [{"weight_versions": [3, 3, 4]}, {"weight_versions": [4, 4]}, {"head_version": 4, "tail_version": 5}]
    found, notes = noted(lines(tmp_path / "1.jsonl", *(row(**named) for named in versions)))
    assert not any(sample.left_out for sample in found)
    assert notes == ["in 2 of 3 rows the response was written by several versions of the policy's weights"]


def test_answers_that_look_like_chats_turns_or_media_are_answers(tmp_path):
    said = ['[{"role": "admin", "name": "Bob"}]', "[{'role': 'x'}] is what Python prints"]
    said += ["Greet the user\nand the assistant\n"]
    given = [row(response=text) for text in said] + [row(image=False, images=[None], videos=[[]])]
    found, notes = noted(lines(tmp_path / "1.jsonl", *given))
    assert ([one.response for one in found], notes) == ([*said, row()["response"]], [])


def test_lines_without_steps_have_groups_of_their_file(tmp_path, own):
    for number, labels in ((1, (True, False)), (2, (False, False, True))):
        lines(tmp_path / f"{number}.jsonl", *(row(step=None, correct=label) for label in labels))
    table = experience_of(iter(noted(tmp_path)[0]), Encoder(own.policy)).rows
    np.testing.assert_allclose(table["group_accuracy"], [1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3])


def test_what_is_passed_over_is_said(tmp_path, caplog):
    lines(tmp_path / "1.jsonl", row(), row(correct=False))
    for name in ("2.jsonl.gz", "2.jsonl.1.gz", "2.jsonl.bak", "._2.jsonl", "3.ndjson", "4.CSV", "notes.txt"):
        lines(tmp_path / name, row())
    assert len(noted(tmp_path)[0]) == 2
    assert f"files beside the rollouts are not read: 6, such as {tmp_path}/._2.jsonl" in caplog.text
    caplog.clear()
    assert (len(noted(tmp_path / "1.jsonl")[0]), caplog.text) == (2, "")


def test_a_bound_of_rewards_is_none_of_verdicts(tmp_path, own):
    found = noted(lines(tmp_path / "1.jsonl", row(), row(correct=False)))[0]
    encoder = Encoder(own.policy, Reading(correct_above=0.5))
    assert experience_of(iter(found), encoder).rows["correct"].tolist() == [1, 0]
    with pytest.raises(ContractError, match=r"line 1: has a verdict, and --correct-above 5 is for rewards"):
        experience_of(iter(found), Encoder(own.policy, Reading(correct_above=5.0)))


def test_a_field_that_the_first_line_lacks_is_read_in_the_others(tmp_path):
    notes: Counter = Counter()
    path = lines(tmp_path / "1.jsonl", row(), row(group=3, truncated=True), row(group=4, finish_reason="abort"))
    found = list(find([path]).samples(Reading(), notes))
    assert [(sample.group, sample.truncated) for sample in found] == [(None, None), (3, True)]
    assert any("truncated" in note and "finish_reason" in note for note in notes if note.startswith("fields"))


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (["0", "1", "10", "2"], [0, 1, 3, 2]),
        (["global_step_1/rollouts", "global_step_10/rollouts", "global_step_2/rollouts"], [0, 2, 1]),
        (["second", "first"], [0, 1]),
    ],
)
def test_folders_lie_in_the_order_of_their_numbers_or_as_they_are_given(tmp_path, names, order):
    """A shell lists them as words: 0, 1, 10, 2."""
    for place, name in enumerate(names):
        lines(tmp_path / name / "rows.jsonl", row(question_id=str(place), step=None))
    for places in ([tmp_path / name for name in names], [tmp_path / name / "rows.jsonl" for name in names]):
        assert [int(sample.question_id) for sample in noted(*places)[0]] == order
