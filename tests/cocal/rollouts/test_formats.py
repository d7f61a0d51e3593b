"""Files of rollouts in the formats of many engines: found, read, refused by one sentence, left out and counted."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import dumps
from cocal import Companion
from cocal.errors import ContractError
from cocal.rollouts.files import find
from cocal.rollouts.sample import MASKED
from cocal.store import write_frame
from cocal.store.contracts import RESPONSES
from hand_rows import LINE, SLIME, dump, lines, noted
from own_rollouts import read_lines

EMPTY = "its response is empty"


def _tables(folder, rollouts):
    for step, frame in rollouts.groupby("step"):
        write_frame(folder / f"step-{step:05d}.parquet", frame, RESPONSES, {})


FORMATS = {
    "3 files of slime's dumps": (
        lambda own, folder: dumps.write_slime(folder, own.rollouts, own.policy.tokenizer),
        ["--field", "reward=acc"],
    ),
    "correctness as reward": (lambda own, folder: dumps.write_completions(folder, own.rollouts, own.questions, 2), []),
    "1 file of JSON lines": (
        lambda own, folder: dumps.write_traces(folder, own.rollouts),
        ["--correct-above", "0"],
    ),
    "3 files of rollout tables of CoCal": (lambda own, folder: _tables(folder, own.rollouts), []),
}


@pytest.mark.parametrize("said", FORMATS)
def test_the_dumps_of_other_engines_are_read(said, tmp_path, capsys, fit, own):
    write, flags = FORMATS[said]
    write(own, tmp_path / "dumps")
    assert fit(tmp_path / "dumps", *flags) == 0
    printed = capsys.readouterr().out
    assert said in printed
    assert "15 groups have 4 responses" in printed
    spec = Companion.from_pretrained(tmp_path / "companion").config.spec
    wrong = f"{100 * spec.training_error_share:.1f} % of them wrong"
    assert f"learnt from {spec.training_responses:,} responses, {wrong}. {spec.validation_responses:,} re" in printed
    if "correctness" not in said:  # TRL does not say which responses were cut
        assert spec.training_responses + spec.validation_responses == (~own.rollouts["truncated"]).sum()
    assert spec.steps == 3


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (["response_ids"], "the response (response_ids) is missing, empty or no text"),
        (["prompt", "prompt_ids"], "the prompt (prompt, prompt_ids) is missing, empty or no text; correct or delete"),
        (["step"], "the row has no step, but others have one; add it, or leave out all steps"),
    ],
)
def test_a_bad_row_is_named(missing, message, capsys, fit, score, source):
    """Scoring asks for no step."""
    rows = read_lines(source)
    rows[2] = {field: value for field, value in rows[2].items() if field not in missing}
    lines(source, *rows)
    for command in (fit,) if missing[0] == "step" else (fit, score):
        assert command(source) == 2
        (error,) = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
        assert f"{source}: line 3: {message}" in error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n \n", "the file is empty"),
        ("{}\n".encode("utf-16"), "line 1: not UTF-8; write the file in UTF-8"),
        ("{\n}\n", "line 1: not JSON (EOF while parsing an object); write one object in each line"),
        ('{"text": "a"}\n', "line 1: none of the fields prompt, messages, input, prompt_ids is there; its fields"),
    ],
)
def test_a_bad_file_is_named(tmp_path, capsys, score, fit, text, message):
    source = tmp_path / "in.jsonl"
    source.write_bytes(text if isinstance(text, bytes) else text.encode())
    for command in (score, fit):
        assert command(source) == 2
        assert f"{source}: {message}" in capsys.readouterr().err


def test_a_folder_without_rollouts_names_those_within(tmp_path):
    (tmp_path / "run/dump").mkdir(parents=True)
    with pytest.raises(ContractError, match=r"the folder holds no rollouts \(\*.jsonl, \*.parquet, \*.pt\)$"):
        find([tmp_path / "run"])
    (tmp_path / "run/1.jsonl.gz").touch()
    with pytest.raises(ContractError, match=r"; unpack, convert or name 1.jsonl.gz$"):
        find([tmp_path / "run"])
    (tmp_path / "run/dump/1.jsonl").write_text("{}")
    with pytest.raises(ContractError, match=r"; unpack, convert or name 1.jsonl.gz$"):
        find([tmp_path / "run"])
    with pytest.raises(ContractError, match="there is no such file or folder of rollouts"):
        find([tmp_path / "nowhere"])


@pytest.mark.parametrize(
    "names", [("prompt_ids", "response_ids", "correct"), ("data_source", "prompt", "reward_model")]
)
def test_a_table_of_another_kind_is_told_so(tmp_path, names):
    """Of one's own, and the questions of a training with verl."""
    pq.write_table(pa.table({name: [[5]] for name in names}), tmp_path / "train.parquet")
    with pytest.raises(ContractError, match=r"no format has this ending and these columns; .*as JSON lines \(pandas"):
        find([tmp_path])


def test_slime_s_samples_that_are_no_responses_are_left_out_and_counted(tmp_path):
    gone = {"tokens": None, "response_length": 0, "reward": None}
    path = dump(
        tmp_path,
        SLIME | gone | {"status": "aborted"},
        SLIME,
        SLIME | {"loss_mask": [1, 0]},
        SLIME | gone | {"status": "failed"},
        SLIME | gone | {"status": "aborted"},
        SLIME | {"status": "completed", "loss_mask": [0, 0]},
        SLIME | {"remove_sample": True},
        SLIME | {"response_length": 0, "loss_mask": []},
        SLIME | {"rollout_id": 4},
        SLIME
        | {"multimodal_inputs": {"images": ["one"]}, "prompt": [{"role": "user", "content": [{"type": "image"}]}]},
        SLIME | {"multimodal_inputs": {}, "remove_sample": False, "rollout_id": None},
        SLIME,
    )
    found, notes = noted(path, reward="acc")
    assert [sample.where.rpartition(" ")[2] for sample in found] == ["1", "5", "8", "10", "11"]
    assert notes == [
        "2 rows left out: its status is 'aborted'",
        f"1 row left out: {MASKED}",
        "1 row left out: its status is 'failed'",
        "1 row left out: slime removed it from training (remove_sample)",
        "1 row left out: its response is empty",
        "1 row left out: it has images or other media",
    ]
    dump(tmp_path, SLIME | gone | {"status": "aborted"})
    with pytest.raises(ContractError, match=r"no response to learn from .1 row left out: its status is 'aborted'"):
        noted(path, reward="acc")


@pytest.mark.parametrize("name", ["{}.pt", "rollout_{}.pt", "data_{}.pt"])
def test_slime_s_dumps_have_the_names_of_its_documentation(tmp_path, name):
    for rollout in (2, 10):
        torch.save({"rollout_id": rollout, "samples": [SLIME]}, tmp_path / name.format(rollout))
        torch.save({"rollout_id": rollout, "samples": []}, tmp_path / name.format(f"eval_{rollout}"))
    found, _ = noted(tmp_path, reward="acc")
    assert [sample.step for sample in found] == [3, 11]
    found, _ = noted(tmp_path / name.format(10), reward="acc")
    assert [sample.step for sample in found] == [11]


def test_slime_s_dumps_may_hold_tensors(tmp_path):
    """As some rollout functions return them."""
    tensors = {name: torch.tensor(SLIME[name]) for name in ("tokens", "loss_mask", "response_length")}
    torch.save({"samples": [SLIME | tensors | {"reward": {"acc": torch.tensor(1.0)}}]}, tmp_path / "0.pt")
    (one,), _ = noted(tmp_path, correct="acc")
    assert (one.prompt_ids.tolist(), one.response_ids.tolist(), one.label) == ([3, 4, 5], [6, 7], 1.0)
    with pytest.raises(
        ContractError, match=r"sample 0: the reward has several parts \(acc\); name .* --field reward=KEY"
    ):
        noted(tmp_path, correct="score")


def test_trl_s_rows_without_texts_are_left_out_and_counted(tmp_path):
    chat = [{"role": "user", "content": "What is 3 + 8?"}]
    calls = [{"role": "assistant", "content": None}]
    texts = pd.DataFrame(
        {"prompt": ["p", "p", None, "p", "q"], "completion": ["a", None, "b", "c", ""], "right": [1.0, 0, 1, 0, 1]}
    )
    said = [{"role": "assistant", "content": "11"}]
    chats = {"prompt": [chat] * 3, "completion": [said, calls, []], "right": [1.0, 0, 0]}
    for table, count in ((pa.Table.from_pandas(texts), 3), (pa.table(chats), 2)):
        path = tmp_path / "completions_00001.parquet"
        pq.write_table(table, path)
        found, notes = noted(path)
        assert len({sample.group for sample in found}) == 1
        assert sum(int(note.split()[0]) for note in notes) == count
        assert {note.partition(": ")[2] for note in notes} <= {"its prompt or completion has no text", EMPTY}
        assert all(sample.step == 1 for sample in found)
    assert (found[0].asked, found[0].response) == ("What is 3 + 8?", "11")


def test_trl_s_rewards_in_words_are_read_and_those_that_are_none_left_out(tmp_path):
    """As a table that somebody has written again may hold them; completions of several messages are those of tools."""
    path = tmp_path / "completions_00001.parquet"
    pq.write_table(pa.table({"prompt": ["p"] * 3, "completion": ["a", "b", "c"], "right": ["yes", None, "no"]}), path)
    found, notes = noted(path, reward="right")
    assert ([sample.label for sample in found], notes) == ([1.0, 0.0], ["1 row left out: it has no label"])
    said = [{"role": "assistant", "content": text} for text in ("Let me see.", "11")]
    asked = [{"role": "user", "content": "3 + 8?"}]
    table = {"prompt": [asked] * 2, "completion": [said, said[1:]], "right": [1.0, 0.0]}
    pq.write_table(pa.table(table), path)
    found, notes = noted(path)
    assert [sample.label for sample in found] == [0.0]
    assert [note.partition(";")[0] for note in notes] == ["1 row left out: it has several messages or responses"]


def test_files_that_are_named_one_by_one_are_read_as_their_folder_is(tmp_path):
    for step, number in enumerate((1, 2, 10), start=1):
        for place in ("a", "b"):
            (tmp_path / place).mkdir(exist_ok=True)
            row = LINE | {"step": None, "group": 0, "question_id": f"{place}{number}"}
            lines(tmp_path / place / f"{number}.jsonl", row)
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
    first = lines(tmp_path / "part-1.jsonl", LINE | {"group": 5}, LINE | {"group": 6, "correct": False})
    found, _ = noted(first, lines(tmp_path / "part-2.jsonl", LINE | {"group": 6}))
    assert [(sample.step, sample.group) for sample in found] == [(4, 5), (4, 6), (4, 6)]


def test_rows_without_a_label_are_left_out_and_counted(tmp_path):
    """Also the first one, which does not name the fields alone."""
    rows = [LINE | {"correct": k > 3 if k % 3 else None, "step": k + 1} for k in range(7)]
    rows[2].pop("correct")
    path = tmp_path / "rows.jsonl"
    for given in (rows, [rows[2], *rows]):
        found, notes = noted(lines(path, *given))
        assert [sample.label for sample in found] == [
            float(row["correct"]) for row in given if row.get("correct") is not None
        ]
        assert f"{len(given) - len(found)} rows left out: it has no label" in notes
    with pytest.raises(
        ContractError, match=r"no response to learn from \(2 rows left out: it has no label\); if others"
    ):
        noted(lines(path, rows[0], rows[2]))
