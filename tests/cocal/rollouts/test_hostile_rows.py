"""Rows that somebody else wrote: each is read, or refused by one sentence that names file and row."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from cocal.confidence import evaluation
from cocal.confidence.scored import read_scored
from cocal.confidence.scoring import Wanted, check
from cocal.errors import ContractError
from cocal.fitting.config import CompanionConfig
from cocal.rollouts.format import Reading
from cocal.rollouts.formats import slime, trl
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal.store.rows import entries
from cocal_study.config.data import FileSettings
from cocal_study.policy import jsonl
from cocal_study.questions.loaders import load_files
from hand_rows import FIXED, LINE, SLIME, TEXT, dump, lines, samples, sentence

SCORED = {"question_id": 3, "response": "So \\boxed{12}", "confidence": 0.75, "correct": False, "answer": "12"}
QUESTION = {"question": "What is 5 + 11?", "answer": 16, "aliases": ["sixteen"], "id": "q2"}
QUESTION |= {"subject": "sums", "level": 4}
DEEP: list = []
for _ in range(150):
    DEEP = [DEEP]
HOSTILE = [
    *(None, [], {}, "", " ", "x", "nan", "\x00", True, False, 0, 1, -1, 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *(2**31, 2**32 + 7, 2**63, 2**64, 10**400, [1, 2], [0.5], [True], ["a"], [None], [[1], [2, 3]], [2**32 + 7, 5]),
    *([-3, 5], [10**30], [float("nan"), 0.0], [0.5, 0.5], {"role": "user"}, [{"role": "user"}], {"a": {"b": 1}}, DEEP),
    *([{"role": "user", "content": None}], [{"role": 1, "content": "x"}], "completed", "aborted", {"type": "stop"}),
]
"""Values of the wrong kind, each of which is put into every field."""
BYTES = (
    *(b'{"prompt": "\\ud800"}', b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", b'{"a": ' + b"9" * 5_000 + b"}"),
    *(b'{"prompt": "\xff\xfe"}', b"\x00" * 64, b'{"a": 1} {"a": 2}', b'{"a": 1,}', b'{"prompt": "What', b"{'a': 1}"),
    *(b'{"a": 1} // x', b"[1, 2]", b"17", b"NaN", b'"{}"', b'{1: "a"}', b'{"a": "\t"}', b"\x1f\x8b\x08\x00\x00\x00"),
    '{"a": 1}'.encode("utf-16"),
)
"""Lines that are no JSON objects: half a character, too many levels or digits, half an object, another encoding."""
ABOUT = CompanionConfig.model_construct(fields={}, max_response_length=None)
"""The part of a companion that scoring asks before it reads rows."""


def of_lines(name):
    return lambda folder, *given: lines(folder / name, *given)


def questions(path):
    return load_files({"x": FileSettings(kind="file", path=str(path))})


READ = Reading()
READERS = {
    "lines of ids": (of_lines("mine.jsonl"), LINE, samples),
    "lines of texts": (of_lines("mine.jsonl"), TEXT, samples),
    "lines to score": (of_lines("in.jsonl"), LINE | TEXT, lambda path: check(Wanted(path, {}), ABOUT)),
    "lines to import": (of_lines("1.jsonl"), FIXED, jsonl.read),
    "scored lines": (of_lines("out.jsonl"), SCORED, lambda path: evaluation.read(path, READ)),
    "lines to decide": (
        of_lines("out.jsonl"),
        SCORED,
        lambda path: read_scored(path, READ, ["question"], answers=True),
    ),
    "slime": (dump, SLIME, lambda path: slime.read(path, "acc")),
    "questions": (of_lines("mine.jsonl"), QUESTION, questions),
}
ROW = {"slime": "sample 1"}


def places(value, path=()):
    """The places of a row at which another value can stand."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for key, one in enumerate(value):
            yield from places(one, (*path, key))


def replaced(value, path, other):
    if not path:
        return other
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], other)
    return copy


def refusal(name: str, folder: Path, bad) -> str | None:
    """The sentence about a bad second row, which must name file and row; None where the row is read."""
    write, good, read = READERS[name]
    path = write(folder, good, bad, *([] if name == "questions" else [good]))
    said = sentence(read, path)
    assert said is None or (f"{path}: {ROW.get(name, 'line 2')}" in said and len(said) < 1_000)
    return said


@pytest.mark.parametrize("name", READERS)
def test_every_field_may_hold_anything(name, tmp_path):
    _, good, _ = READERS[name]
    found = [refusal(name, tmp_path, replaced(good, path, value)) for path in places(good) for value in HOSTILE]
    assert 0.2 * len(found) < sum(one is not None for one in found) < len(found)


@pytest.mark.parametrize("name", [name for name in READERS if name != "slime"])
def test_every_line_may_be_anything(name, tmp_path):
    for bad in BYTES:
        assert refusal(name, tmp_path, bad)


@pytest.mark.parametrize("name", ["status", "tokens", "samples"])
def test_lists_of_a_hundred_thousand_levels_in_a_dump_are_named(tmp_path, name):
    """Python cannot write them as a pickle, but a pickle can hold them."""
    path, deep = tmp_path / "0.pt", b"]" * 100_000 + b"a" * 99_999
    key = b"X" + len(name).to_bytes(4, "little") + name.encode()
    one = b"](}" + key + deep + b"se" if name != "samples" else deep
    torch.save({}, path)
    with zipfile.ZipFile(path) as archive:
        content = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for entry, whole in content.items():
            made = b"\x80\x02}X\x07\x00\x00\x00samples" + one + b"s."
            archive.writestr(entry, made if entry.endswith("data.pkl") else whole)
    assert sentence(slime.read, path, "acc").startswith(f"{path}: sample 0: ")


@pytest.mark.parametrize("ending", ["jsonl", "pt", "parquet"])
def test_what_is_no_file_is_named(tmp_path, ending):
    loop, pipe, folder, gone = (tmp_path / f"{k}.{ending}" for k in range(4))
    loop.symlink_to(loop)
    os.mkfifo(pipe)
    folder.mkdir()
    for place in (loop, pipe, folder, gone, tmp_path / ("x" * 300 + f".{ending}")):
        with pytest.raises(ContractError, match=place.name):
            samples(place)
        read = {"jsonl": lambda path: list(entries(path)), "pt": slime.read, "parquet": trl.read}[ending]
        with pytest.raises(ContractError, match=f"{place.name}: there is no such file"):
            read(*([place] if ending == "jsonl" else [place, "reward"]))


def test_damaged_dumps_and_tables_are_named(tmp_path):
    table = {"prompt": ["a", "b"] * 9, "completion": ["c", "d", "e"] * 6, "acc": [0.5] * 18}
    pq.write_table(pa.table(table), tmp_path / "1.parquet")
    generator = np.random.default_rng(8)
    for path, read in ((dump(tmp_path, SLIME), slime.read), (tmp_path / "1.parquet", trl.read)):
        content = path.read_bytes()
        for place in range(0, len(content), max(len(content) // 40, 1)):
            flipped = bytearray(content)
            flipped[place] ^= 1 << int(generator.integers(8))
            for damaged in (content[:place], bytes(flipped)):
                path.write_bytes(damaged)
                said = sentence(read, path, "acc")
                assert said is None or str(path) in said


def test_lists_of_a_table_are_lists_of_the_right_kind(tmp_path):
    row = {"prompt_ids": [[5, 6], [7]], "response_ids": [[8], [9, 10]], "length": [1, 2]}
    for name, values, message in (
        ("response_ids", [[8], None], "has no list in row 1"),
        ("response_ids", [["8"], ["9", "10"]], r"holds list<.*string>, not list<"),
        ("prompt_ids", [5, 7], "holds int64, not list<"),
    ):
        pq.write_table(pa.table(row | {name: values}), tmp_path / "t.parquet")
        with pytest.raises(ContractError, match=f"t.parquet: column '{name}' {message}"):
            read_frame(tmp_path / "t.parquet", RESPONSES, [*row])
