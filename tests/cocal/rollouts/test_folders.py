"""Which files of a folder are read, and what is said of files and fields that are not."""

import pytest

from chat_rows import SWITCH, answers
from cocal.errors import ContractError
from cocal.rollouts.files import find
from hand_rows import lines, samples


@pytest.mark.parametrize("below", ["rollouts/1", "train/b", "step_3/train/b"])
def test_files_of_a_folder_and_of_those_below_are_read_together(tmp_path, below):
    lines(tmp_path / "eval.jsonl", *answers("a"))
    lines(tmp_path / f"{below}.jsonl", *answers("b"))
    found = find([tmp_path])
    assert [path.name for path, _ in found.files] == [f"{below[-1]}.jsonl"]
    assert "eval.jsonl" in found.said[0]
    lines(tmp_path / "rollouts.jsonl", *answers("c"))
    assert [path.name for path, _ in find([tmp_path]).files] == ["rollouts.jsonl", f"{below[-1]}.jsonl"]


def test_a_file_that_holds_no_rollouts_is_told_from_those_that_do(tmp_path):
    lines(tmp_path / "metrics.jsonl", {"step": 1, "loss": 0.5})
    lines(tmp_path / "rollouts" / "1.jsonl", *answers())
    with pytest.raises(ContractError, match=r"metrics.jsonl: .*if these are no rollouts, name .*/rollouts/1.jsonl"):
        samples(tmp_path)


def test_unread_fields_that_may_tell_policies_or_ends_are_named(reading):
    lora = [row | {"lora_name": name} for row, name in zip(answers(), "aaabbb", strict=True)]
    notes = reading(
        SWITCH, *(row | {"overlong_cut": 1, "status": "length", "judge_model": row["response"]} for row in lora)
    )[1].notes
    assert any("several policies, as lora_name is not read and says (3 of a, 3 of b)" in note for note in notes)
    assert not any("judge_model" in note and "policies" in note for note in notes)
    (note,) = (note for note in notes if "which responses were cut" in note)
    assert note.endswith(
        "; not read, and may tell it: overlong_cut, status (--field truncated=NAME or finish_reason=NAME)"
    )


@pytest.mark.parametrize(
    ("row", "mapping", "said"),
    [
        ({"input_ids": [5, 6], "output_ids": [7]}, {}, r"input_ids, output_ids as ids \(--field prompt_ids=NAME, "),
        ({"prompt": "2?", "output_ids": [7, 8]}, {"response": "output_ids"}, "is a list of token ids; name it so"),
        ({"prompt": "2?", "choices": [{"text": "4"}]}, {}, r"what lies within choices has .*docs/formats.md"),
        ({"prompt": "2?", "confidence_members": {"a": 1}}, {}, "name one by --field response=FIELD$"),
    ],
)
def test_the_advice_about_other_fields_can_be_followed(tmp_path, row, mapping, said):
    with pytest.raises(ContractError, match=said):
        samples(lines(tmp_path / "1.jsonl", row | {"correct": True}), **mapping)


@pytest.mark.parametrize("name", ["1.json", "1.jsonlines", "1.arrow", "1.pkl", "1.tar.gz"])
def test_a_folder_of_other_files_is_told_what_to_do_with_them(tmp_path, name):
    (tmp_path / name).write_text("{}")
    with pytest.raises(ContractError, match=rf"holds no rollouts .*; unpack or convert {name}"):
        find([tmp_path])
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ContractError, match=r"is a pointer of git-lfs"):
        find([tmp_path])
    lines(tmp_path / "a" / "b" / "1.jsonl", *answers())
    (tmp_path / name).unlink()
    with pytest.raises(ContractError, match=r"there are some in a/b"):
        find([tmp_path])
