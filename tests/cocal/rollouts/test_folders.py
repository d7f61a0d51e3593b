"""Which files of a folder are read, and what is said of files and fields that are not."""

import pytest

from chat_rows import answers
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


@pytest.mark.parametrize(
    ("row", "mapping", "said"),
    [
        ({"input_ids": [5, 6], "output_ids": [7]}, {}, r"name one \(--field prompt=NAME or .*prompt_ids=NAME\)"),
        (
            {"prompt": "2?", "output_ids": [7, 8]},
            {"response": "output_ids"},
            r"token ids; name it so \(--field prompt_ids",
        ),
        ({"prompt": "2?", "choices": [{"text": "4"}]}, {}, r"what lies within another, .*docs/formats.md"),
    ],
)
def test_the_advice_about_other_fields_can_be_followed(tmp_path, row, mapping, said):
    with pytest.raises(ContractError, match=said):
        samples(lines(tmp_path / "1.jsonl", row | {"correct": True}), **mapping)


@pytest.mark.parametrize("name", ["1.json", "1.jsonlines", "1.arrow", "1.pkl", "1.tar.gz"])
def test_a_folder_of_other_files_is_told_what_to_do_with_them(tmp_path, name):
    (tmp_path / name).write_text("{}")
    with pytest.raises(ContractError, match=rf"holds no rollouts .*; unpack, convert or name {name}"):
        find([tmp_path])
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ContractError, match=r"is a pointer of git-lfs"):
        find([tmp_path])
    lines(tmp_path / "a" / "b" / "1.jsonl", *answers())
    (tmp_path / name).unlink()
    with pytest.raises(ContractError, match=r"; name a folder in it, such as a/b$"):
        find([tmp_path])
