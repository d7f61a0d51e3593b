"""What rows of rollouts mean: labels in words, ends of responses, rows that are left out, the order of files."""

from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from test_hostile_rows import FIXED, LINE, SLIME, TEXT, dump, lines, samples, sentence

from cocal.errors import ContractError
from cocal.integrations import jsonl
from cocal.integrations.sample import LABELS
from cocal.integrations.slime import dumps as slime
from cocal.own_policy import evaluation
from cocal.own_policy.encoding import Encoder
from cocal.own_policy.experience import experience_of
from cocal.own_policy.formats import find
from cocal.own_policy.scored import Reading


def row(**values):
    return {**LINE, **values}


def noted(*places, **mapping) -> tuple[list, list[str]]:
    notes: Counter = Counter()
    return list(find(list(places)).samples(mapping, notes)), [note for note in notes if "left out" in note]


@pytest.mark.parametrize("field", ["correct", "reward"])
def test_labels_are_read_in_words(tmp_path, field):
    given = [
        (change(word), label) for word, label in LABELS.items() for change in (str.upper, str.title, "\t{} ".format)
    ]
    given += [(True, 1.0), (False, 0.0), (1, 1.0), (0.0, 0.0)]
    rows = [{**TEXT, "reward": None, field: value, "confidence": 0.25} for value, _ in given]
    path = lines(tmp_path / "mine.jsonl", *rows)
    assert [sample.label for sample in samples(path)] == [label for _, label in given]
    assert evaluation.read(path, Reading({})).correct.tolist() == [label == 1 for _, label in given]


def test_another_word_is_answered_with_the_remedy(tmp_path):
    path = lines(tmp_path / "mine.jsonl", row(), row(correct="maybe"))
    assert sentence(samples, path) == (
        f"{path}: line 2: field 'correct' is 'maybe', neither true nor false (the words for it are true, correct, "
        "right, yes, 1, 1.0, false, incorrect, wrong, no, 0, 0.0); if it is a reward, say so by --field reward=NAME; "
        "correct or delete the row"
    )
    path = lines(tmp_path / "other.jsonl", TEXT | {"reward": "-0.75"}, TEXT | {"reward": "high"})
    assert "line 2: field 'reward' is 'high', neither a finite number nor a label" in sentence(samples, path)


@pytest.mark.parametrize("ids", [[2**32 + 7, 5], [5, 2**31], [-1, 5], [2**63, 5], [2**64, 5], [2**32 + 7]])
def test_ids_that_would_wrap_are_refused(tmp_path, ids):
    for name in ("prompt_ids", "response_ids"):
        said = sentence(samples, lines(tmp_path / "mine.jsonl", row(), row(**{name: ids})))
        assert f"mine.jsonl: line 2: field '{name}' is " in said
    said = sentence(slime.read, dump(tmp_path, SLIME, SLIME | {"tokens": [5, 6, *ids]}), "acc")
    assert "0.pt: sample 1: field 'tokens' is " in said


@pytest.mark.parametrize(
    ("reason", "cut", "left_out"),
    [
        ("stop", False, False),
        ("EOS_TOKEN", False, False),
        ({"type": "stop", "matched": 7}, False, False),
        ("length", True, False),
        ("max_tokens", True, False),
        ({"type": "length", "length": 64}, True, False),
        ("abort", True, True),
        ("cancelled", True, True),
        ("content_filter", True, True),
        ("tool_calls", True, True),
        (None, None, False),
        ("", None, False),
    ],
)
def test_a_response_ended_as_its_engine_says(tmp_path, reason, cut, left_out):
    path = lines(tmp_path / "mine.jsonl", row(truncated=None, finish_reason=reason), row(finish_reason="stop"))
    found, notes = noted(path)
    assert [sample.truncated for sample in found] == ([] if left_out else [cut]) + [LINE["truncated"]]
    assert notes == ([f"1 row left out: it ended by {reason!r}"] if left_out else [])


def test_slime_s_unfinished_and_masked_samples_are_left_out_and_counted(tmp_path):
    gone = {"tokens": None, "response_length": 0, "reward": None}
    path = dump(
        tmp_path,
        SLIME | gone | {"status": "aborted"},
        SLIME,
        SLIME | {"loss_mask": [1, 0]},
        SLIME | gone | {"status": "failed"},
        SLIME | gone | {"status": "aborted"},
        SLIME | {"status": "completed", "loss_mask": [0, 0]},
    )
    found, notes = noted(path, reward="acc")
    assert [sample.where.rpartition(" ")[2] for sample in found] == ["1", "5"]
    assert notes == [
        "2 rows left out: its status is 'aborted'",
        "1 row left out: its loss_mask excludes tokens that the policy did not write",
        "1 row left out: its status is 'failed'",
    ]
    dump(tmp_path, SLIME | gone | {"status": "aborted"})
    with pytest.raises(ContractError, match=r"no response to learn from .1 row left out: its status is 'aborted'"):
        noted(path, reward="acc")


def test_trl_s_rows_without_texts_are_left_out_and_counted(tmp_path):
    chat = [{"role": "user", "content": "What is 3 + 8?"}]
    calls = [{"role": "assistant", "content": None}]
    texts = pd.DataFrame(
        {"prompt": ["p", "p", None, "p", "q"], "completion": ["a", None, "b", "c", ""], "right": [1.0, 0, 1, 0, 1]}
    )
    chats = {
        "prompt": [chat] * 3,
        "completion": [[{"role": "assistant", "content": "11"}], calls, []],
        "right": [1.0, 0, 0],
    }
    for table, count in ((pa.Table.from_pandas(texts), 3), (pa.table(chats), 2)):
        path = tmp_path / "completions_00002.parquet"
        pq.write_table(table, path)
        found, notes = noted(path)
        assert len({sample.group for sample in found}) == 1
        assert notes == [f"{count} rows left out: its prompt or completion has no text"]
        assert all(sample.step == 1 for sample in found)
    assert (found[0].asked, found[0].response) == ("What is 3 + 8?", "11")


def test_files_that_are_named_one_by_one_are_read_as_their_folder_is(tmp_path):
    for step, number in enumerate((1, 2, 10), start=1):
        for place in ("a", "b"):
            (tmp_path / place).mkdir(exist_ok=True)
            lines(tmp_path / place / f"{number}.jsonl", row(step=None, group=0, question_id=f"{place}{number}"))
            torch.save({"samples": [SLIME | {"group_index": 0}]}, tmp_path / place / f"{number - 1}.pt")
            table = pa.table({"prompt": ["p"], "completion": ["c"], "right": [number / 16]})
            pq.write_table(table, tmp_path / place / f"completions_{4 * step:05d}.parquet")
    jsonl = sorted((tmp_path / "b").glob("*.jsonl")) + sorted((tmp_path / "a").glob("*.jsonl"))
    found, _ = noted(*jsonl)
    assert [sample.question_id for sample in found] == ["b1", "b2", "b10", "a1", "a2", "a10"]
    assert len({sample.group for sample in found}) == 6, "groups are numbered anew in every file"
    dumps = [tmp_path / place / f"{number}.pt" for place in ("a", "b") for number in (0, 9, 1)]
    found, _ = noted(*dumps, reward="acc")
    assert [sample.step for sample in found] == [1, 2, 10] * 2
    assert len({(sample.step, sample.group) for sample in found}) == 6
    tables = [tmp_path / place / f"completions_{updates:05d}.parquet" for place in ("a", "b") for updates in (12, 4, 8)]
    found, _ = noted(*tables)
    assert [(sample.step, sample.reward) for sample in found] == [(1, 1 / 16), (2, 1 / 8), (3, 5 / 8)] * 2
    assert len({(sample.step, sample.group) for sample in found}) == 6
    with pytest.raises(ContractError, match=r"a/1.jsonl: the file is named twice"):
        find([tmp_path / "a/1.jsonl", tmp_path / "b/../a/1.jsonl"])


def test_groups_that_a_step_shares_lie_in_any_file(tmp_path):
    """Lines with a step belong to the group of their step, wherever a file ends."""
    first = lines(tmp_path / "part-1.jsonl", row(group=5), row(group=6, correct=False))
    found, _ = noted(first, lines(tmp_path / "part-2.jsonl", row(group=6)))
    assert [(sample.step, sample.group) for sample in found] == [(4, 5), (4, 6), (4, 6)]


def test_rows_of_any_form_reach_the_companion(tmp_path, own):
    """Labels in words, chats and ids become one table of experience."""
    encoder = Encoder(own.policy.tokenizer, own.policy.model.config.vocab_size, own.policy.ends)
    rows = [row(correct="yes"), row(correct="no", group=12), TEXT | {"correct": "wrong", "step": 3.0}]
    found = [*samples(lines(tmp_path / "1.jsonl", *rows[:2])), *samples(lines(tmp_path / "2.jsonl", rows[2]))]
    table = experience_of(iter(found), encoder).rows
    assert table["correct"].tolist() == [False, True, False]
    assert table["step"].tolist() == [3, 4, 4]
    np.testing.assert_array_equal(table["response_ids"][1], LINE["response_ids"])


def test_one_reader_serves_the_import_too(tmp_path):
    (found,) = jsonl.read(lines(tmp_path / "7.jsonl", FIXED), "reward")
    assert (found.asked, found.group, found.truncated, found.label) == ("What is 6 + 8?", 11, True, 1.0)
    np.testing.assert_array_equal(found.logprobs, np.float32(FIXED["logprobs"]))
    for name in ("prompt_ids", "response_ids", "truncated", "group"):
        said = sentence(jsonl.read, lines(tmp_path / "7.jsonl", FIXED | {name: None}), "reward")
        assert f"7.jsonl: line 1: field '{name}' is missing" in said
