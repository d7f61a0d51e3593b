"""A run of `cocal score` that was stopped goes on with the blocks that it kept, if they are what it wrote."""

import re

import pytest

from cocal import Companion
from cocal.confidence import scoring
from cocal.fitting.models import Checkpoint
from cocal.rollouts import encoding
from micro import own_copy
from own_rollouts import CHANGES, exchange_ids, killed_at, read_lines, run, write_lines


@pytest.fixture(scope="module", autouse=True)
def _small_blocks():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(encoding, "BLOCK", 7)
        patched.setattr(scoring, "ROWS", 14)
        yield


@pytest.fixture(scope="module")
def whole(own, mine, tmp_path_factory) -> bytes:
    """The lines of a run that nothing has stopped."""
    output = tmp_path_factory.mktemp("whole") / "out.jsonl"
    assert own.score(mine, output) == 0
    return output.read_bytes()


@pytest.mark.parametrize(
    ("change", "flags", "blocks"),
    [
        (None, (), 4),
        *((name, (), 5) for name in CHANGES),
        (None, ("--companion", "other"), 5),
        (None, ("--field", "group=step"), 5),
        (None, ("--name", "p"), 5),
        (None, ("--target", "binary"), 5),
        (None, ("--seed", "137"), 5),
        (None, ("--max-response-length", "19"), 5),
        (None, ("--batch-tokens", "900"), 5),
    ],
)
def test_scoring_goes_on_only_with_confidences_of_its_own_inputs(
    tmp_path, own, whole, monkeypatch, change, flags, blocks
):
    """It is killed in the second of five blocks; what it has written of a third one is written again."""
    model, output = own_copy(own.checkpoint, tmp_path / "model"), tmp_path / "out.jsonl"
    source = write_lines(tmp_path / "mine.jsonl", own.rollouts, own.texts)
    command = ("score", "--companion", own.companion, "--model", model, source, output)
    seen = killed_at(monkeypatch, Companion, "score_encoded", 2, 2)
    assert run(*command) == 130
    unfinished = tmp_path / ".out.jsonl.score/scored.jsonl"
    unfinished.write_bytes(unfinished.read_bytes() + b'{"half of a li')
    assert not output.exists()
    if change:
        CHANGES[change](model, source)
    if "other" in flags:
        companion = Companion.from_pretrained(own.companion)
        next(iter(companion.companions.model.parameters())).data.mul_(1.5)
        companion.save_pretrained(tmp_path / "other")
        flags = ("--companion", tmp_path / "other")
    assert run(*command, *flags) == 0
    assert seen[2:] == [14, 14, 14, 14, 4][-blocks:]
    assert len(read_lines(output)) == len(own.rollouts)
    assert change or flags or output.read_bytes() == whole
    assert not unfinished.exists()


@pytest.fixture
def killed(tmp_path, own, monkeypatch):
    """A run of five blocks that is killed in the third: its command, its input and the sizes of later blocks."""
    source = write_lines(tmp_path / "mine.jsonl", own.rollouts, own.texts)
    command = ("score", "--companion", own.companion, "--model", own.checkpoint, source)
    seen = killed_at(monkeypatch, Companion, "score_encoded", 3, 2)
    assert run(*command, tmp_path / "out.jsonl") == 130
    return command, source, seen


def test_a_run_in_another_number_format_is_begun_anew(tmp_path, killed, monkeypatch):
    """As on another processor of a cluster, where nothing was said of the format."""
    command, _, seen = killed
    monkeypatch.setattr(Checkpoint, "usual_precision", lambda self: "bfloat16")
    assert run(*command, tmp_path / "out.jsonl") == 0
    assert seen[3:] == [14, 14, 14, 14, 4]


def other_digit(kept):
    kept[16] = re.sub(rb'("confidence": 0[.]..)(.)', lambda m: m[1] + (b"7" if m[2] != b"7" else b"1"), kept[16])


DAMAGES = {
    "nothing": (lambda lines: None, 3),
    "a digit": (other_digit, 4),
    "two blocks exchanged": (lambda lines: lines.__setitem__(slice(0, 28), lines[14:28] + lines[:14]), 5),
    "an empty line": (lambda lines: lines.insert(20, b"\n"), 4),
    "a line less": (lambda lines: lines.pop(3), 5),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_kept_blocks_that_have_changed_are_scored_again(tmp_path, killed, whole, damage):
    change, blocks = DAMAGES[damage]
    command, _, seen = killed
    kept = tmp_path / ".out.jsonl.score/scored.jsonl"
    found = kept.read_bytes().splitlines(keepends=True)
    assert len(found) == 28
    change(found)
    kept.write_bytes(b"".join(found))
    assert run(*command, tmp_path / "out.jsonl") == 0
    assert seen[3:] == [14, 14, 14, 14, 4][-blocks:]
    assert (tmp_path / "out.jsonl").read_bytes() == whole


@pytest.mark.parametrize("name", ["blocks.sha256", "scored.jsonl"])
def test_blocks_without_a_digest_are_scored_again(tmp_path, killed, whole, name):
    command, _, seen = killed
    (tmp_path / ".out.jsonl.score" / name).unlink()
    assert run(*command, tmp_path / "out.jsonl") == 0
    assert seen[3:] == [14, 14, 14, 14, 4]
    assert (tmp_path / "out.jsonl").read_bytes() == whole


def test_a_block_whose_input_has_changed_is_scored_again(tmp_path, killed):
    command, source, seen = killed
    exchange_ids(source, 14, "response_ids")  # of the second block
    assert run(*command, tmp_path / "out.jsonl") == 0
    assert seen[3:] == [14, 14, 14, 4]
    assert run(*command, tmp_path / "again.jsonl") == 0
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "again.jsonl").read_bytes()
