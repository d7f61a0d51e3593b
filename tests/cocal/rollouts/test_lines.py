"""Rows mean the same whatever reads them: labels in words, ids, ends of responses."""

import numpy as np
import pytest

from cocal.confidence import evaluation
from cocal.rollouts.format import Reading
from cocal.rollouts.formats import slime
from cocal.rollouts.lines import Fields
from cocal.rollouts.values import LABELS
from cocal_study.policy import jsonl
from hand_rows import FIXED, LINE, SLIME, TEXT, dump, lines, samples, sentence


@pytest.mark.parametrize("field", ["correct", "reward"])
def test_labels_are_read_in_words(tmp_path, field):
    forms = str.upper, str.title, "\t{} ".format
    given = [(form(word), label) for word, label in LABELS.items() for form in forms]
    given += [(True, 1.0), (False, 0.0), (1, 1.0), (0.0, 0.0)]
    rows = [{**TEXT, "reward": None, field: value, "confidence": 0.25} for value, _ in given]
    path = lines(tmp_path / "mine.jsonl", *rows)
    assert [sample.label for sample in samples(path)] == [label for _, label in given]
    assert evaluation.read(path, Reading()).correct.tolist() == [label == 1 for _, label in given]


def test_another_word_is_answered_with_the_remedy(tmp_path):
    path = lines(tmp_path / "mine.jsonl", LINE, LINE | {"correct": "maybe"})
    assert sentence(samples, path) == (
        f"{path}: line 2: field 'correct' is 'maybe', neither true nor false (the words for it are true, correct, "
        "right, yes, 1, 1.0, false, incorrect, wrong, no, 0, 0.0); if it is a reward, say so by --field reward=NAME; "
        "correct or delete the row"
    )
    path = lines(tmp_path / "other.jsonl", TEXT | {"reward": "-0.75"}, TEXT | {"reward": "high"})
    assert "line 2: field 'reward' is 'high', neither a finite number nor a label" in sentence(samples, path)
    path = lines(tmp_path / "parts.jsonl", TEXT | {"reward": {"score": 1, "format": 0.5}})
    assert "has values of its own; put the one that means correct beside it" in sentence(samples, path)


def test_steps_are_numbers_or_named_as_folders_are(tmp_path):
    given = [3, "4", "step_5", "global_step_6", "Step-7"]
    path = lines(tmp_path / "mine.jsonl", *(TEXT | {"step": one} for one in given))
    assert [sample.step for sample in samples(path)] == [3, 4, 5, 6, 7]
    said = sentence(samples, lines(tmp_path / "other.jsonl", TEXT | {"step": "epoch_5"}))
    assert "field 'step' is 'epoch_5', not the number of a rollout step" in said


def test_a_text_within_a_list_is_told_from_messages(tmp_path):
    path = lines(tmp_path / "mine.jsonl", TEXT | {"messages": ["What is 5 + 6?"]})
    assert "field 'messages' is neither a text nor a list of messages" in sentence(samples, path)


def test_an_empty_mask_beside_a_text_says_nothing(tmp_path):
    (found,) = samples(lines(tmp_path / "mine.jsonl", TEXT | {"response_mask": []}))
    assert (found.response, found.response_ids, found.left_out) == (TEXT["response"], None, None)


@pytest.mark.parametrize("ids", [[2**32 + 7, 5], [5, 2**31], [-1, 5], [2**63, 5], [2**64, 5], [2**32 + 7]])
def test_ids_that_would_wrap_are_refused(tmp_path, ids):
    for name in ("prompt_ids", "response_ids"):
        said = sentence(samples, lines(tmp_path / "mine.jsonl", LINE, LINE | {name: ids}))
        assert f"mine.jsonl: line 2: field '{name}' is " in said
    said = sentence(slime.read, dump(tmp_path, SLIME, SLIME | {"tokens": [5, 6, *ids]}), "acc")
    assert "0.pt: sample 1: field 'tokens' is " in said


@pytest.mark.parametrize(
    ("reason", "cut", "left_out"),
    [
        ("stop", False, False),
        ({"type": "stop", "matched": 7}, False, False),
        ("length", True, False),
        ("max_tokens", True, False),
        ("FinishReason.LENGTH", True, False),
        ("FINISH_REASON_STOP", False, False),
        ("abort", True, True),
        ("tool_calls", True, True),
        (None, None, False),
        ("", None, False),
    ],
)
def test_a_response_ended_as_its_engine_says(reason, cut, left_out):
    row = LINE | {"truncated": None, "finish_reason": reason}
    found = Fields.of(row, {}, "here").sample(row, "here")
    assert (found.truncated, found.left_out) == (cut, f"it ended by {reason!r}" if left_out else None)


@pytest.mark.parametrize(
    ("end", "cut"),
    [
        ({"stop": True, "stop_type": "limit", "truncated": False, "stopping_word": ""}, True),  # llama.cpp
        ({"stop": True, "stop_type": "eos", "truncated": False, "stopping_word": ""}, False),
        ({"done": True, "done_reason": "length"}, True),  # Ollama
        ({"finishReason": "MAX_TOKENS"}, True),
        ({"finish_reason": "COMPLETE"}, False),  # Cohere
        ({"finish_reason": "stop", "stop_reason": "eos"}, False),
    ],
)
def test_engines_say_in_their_own_words_what_was_cut(end, cut):
    row = {name: value for name, value in LINE.items() if name != "truncated"} | end
    found = Fields.of(row, {}, "here").sample(row, "here")
    assert (found.truncated, found.left_out, found.doubt, found.stop) == (cut, None, None, None)


def test_one_reader_serves_the_import_too(tmp_path):
    (found,) = jsonl.read(lines(tmp_path / "7.jsonl", FIXED))
    assert (found.asked, found.group, found.truncated, found.label) == ("What is 6 + 8?", 11, True, None)
    np.testing.assert_array_equal(found.logprobs, np.float32(FIXED["logprobs"]))
    for name in ("prompt_ids", "response_ids", "truncated", "group"):
        said = sentence(jsonl.read, lines(tmp_path / "7.jsonl", FIXED | {name: None}))
        assert f"7.jsonl: line 1: field '{name}' is missing" in said
