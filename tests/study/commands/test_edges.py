"""Edges of commands: a disk that is full half-way, names that no page can hold, values that no one checked."""

import os
import shutil

import pytest

from cocal.cli import main
from full_disk import full_disk
from hand_rows import lines
from own_rollouts import run

SCORED = [{"question_id": k // 2, "confidence": k / 40, "correct": k % 3 > 0} for k in range(40)]


@pytest.mark.parametrize("beside", [False, True], ids=["new", "beside notes"])
@pytest.mark.parametrize("count", [100, 4000, 20_000, 60_000])
def test_a_report_is_written_whole_or_not_at_all(tmp_path, capsys, count, beside):
    """The numbers fit, the figure does not, or the page does not. What the message advises is taken afterwards."""
    output = tmp_path / "a/report"
    if beside:
        output.mkdir(parents=True)
        (output / "thesis.tex").write_text("years")
    words = ["evaluate", lines(tmp_path / "scored.jsonl", *SCORED), "--output", output, "--resamples", "20"]
    words += ["--overwrite"] * beside
    with full_disk(count):
        assert run(*words) == 2
    error = capsys.readouterr().err
    assert "could not be written (File too large)" in error
    assert "--overwrite" not in error.rpartition("run the same command again")[2]
    left = {path.relative_to(tmp_path / "a").as_posix() for path in (tmp_path / "a").rglob("*")}
    assert left == ({"report", "report/thesis.tex"} if beside else set())
    assert run(*words) == 0
    names = {"numbers.csv", "reliability.csv", "quality.pdf", "quality.png", "index.html"}
    assert {path.name for path in output.iterdir()} == names | ({"thesis.tex"} if beside else set())


NAME = os.fsdecode(b"sc\xffored.jsonl")


def test_names_that_are_not_utf8_are_refused_in_a_sentence(tmp_path, own, capsys):
    lines(tmp_path / NAME, *SCORED)
    before = sorted(tmp_path.iterdir())
    shutil.copytree(own.checkpoint, tmp_path / "mod\udcffel")
    assert own.companion.exists()  # it is fitted now, if no test has needed it before, and its fit says something
    capsys.readouterr()
    for words in (
        ["evaluate", tmp_path / NAME, "--output", tmp_path / "report"],
        ["decide", "best-of-n", tmp_path / NAME, "--output", tmp_path / "out"],
        ["decide", "best-of-n", tmp_path / "scored.jsonl", "--output", tmp_path / NAME],
        ["score", "--companion", own.companion, "--model", tmp_path / "mod\udcffel", tmp_path / NAME, tmp_path / "out"],
    ):
        assert run(*words) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "holds a name that is not UTF-8" in error
        assert "\\xff" in error
    shutil.rmtree(tmp_path / "mod\udcffel")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "address",
    ["javascript:alert(1)", "MIT", "", "https://", 'https://a"onclick=1', "file:///etc/passwd", "https://a b"],
)
def test_a_licence_is_a_web_address(tmp_path, capsys, address):
    with pytest.raises(SystemExit):
        main(["publish", str(tmp_path / "bundle"), f"--licence={address}"])
    assert f"argument --licence: {address!r} is not a web address" in capsys.readouterr().err
