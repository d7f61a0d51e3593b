"""Kept parts of `cocal score`: a killed run goes on from blocks that are as they were written, and from no others."""

import json
import os
import re

import pytest

from cocal import Companion
from cocal.own_policy import scoring, states
from own_rollouts import killed_at, read_lines, run, write_lines


@pytest.fixture
def killed(tmp_path, own, monkeypatch):
    """A run of five blocks that is killed in the third: its command, its input and the sizes of later blocks."""
    monkeypatch.setattr(states, "BLOCK", 7)
    monkeypatch.setattr(scoring, "ROWS", 14)
    source = write_lines(tmp_path / "mine.jsonl", own.rollouts, own.texts)
    command = ("score", "--companion", own.companion, "--model", own.checkpoint, source)
    seen = killed_at(monkeypatch, Companion, "score_encoded", 3, 2)
    with pytest.raises(KeyboardInterrupt):
        run(*command, tmp_path / "out.jsonl")

    return command, source, seen


def other_digit(lines):
    lines[16] = re.sub(rb'("confidence": 0[.]..)(.)', lambda m: m[1] + (b"7" if m[2] != b"7" else b"1"), lines[16])


def changed_input(lines, source):
    """The first line of the second block gets other response ids; size and time stay."""
    state = source.stat()
    text = source.read_text().splitlines(keepends=True)
    row = json.loads(text[14])
    row["response_ids"][0], row["response_ids"][1] = row["response_ids"][1], row["response_ids"][0]
    text[14] = json.dumps(row, ensure_ascii=False) + "\n"
    source.write_text("".join(text))
    os.utime(source, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert source.stat().st_size == state.st_size


DAMAGES = {
    "nothing": (lambda lines: None, 3),
    "a digit": (other_digit, 4),
    "two lines exchanged": (lambda lines: lines.__setitem__(slice(2, 4), lines[2:4][::-1]), 5),
    "two blocks exchanged": (lambda lines: lines.__setitem__(slice(0, 28), lines[14:28] + lines[:14]), 5),
    "an empty line": (lambda lines: lines.insert(20, b"\n"), 4),
    "a line less": (lambda lines: lines.pop(3), 5),
    "an empty line for a line": (lambda lines: lines.__setitem__(27, b"\n"), 4),
    "another field": (lambda lines: lines.__setitem__(5, lines[5].replace(b'"given"', b'"taken"')), 5),
    "all lines gone": (lambda lines: lines.clear(), 5),
    "the input": (changed_input, 4),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_kept_blocks_that_have_changed_are_scored_again(tmp_path, killed, damage):
    change, blocks = DAMAGES[damage]
    command, source, seen = killed
    kept = tmp_path / ".out.jsonl.score/scored.jsonl"
    found = kept.read_bytes().splitlines(keepends=True)
    assert len(found) == 28
    change(found, source) if damage == "the input" else change(found)
    kept.write_bytes(b"".join(found))
    assert run(*command, tmp_path / "out.jsonl") == 0
    assert seen[3:] == [14, 14, 14, 14, 4][-blocks:]
    assert run(*command, tmp_path / "again.jsonl") == 0
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "again.jsonl").read_bytes()


@pytest.mark.parametrize("name", ["blocks.sha256", "scored.jsonl"])
def test_blocks_without_a_digest_are_scored_again(tmp_path, killed, name):
    command, source, seen = killed
    (tmp_path / ".out.jsonl.score" / name).unlink()
    assert run(*command, tmp_path / "out.jsonl") == 0
    assert seen[3:] == [14, 14, 14, 14, 4]
    assert len(read_lines(tmp_path / "out.jsonl")) == len(read_lines(source))
