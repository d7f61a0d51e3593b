"""What a fit prints, and what its card and a report say, counted again from the lines that were given."""

import json
import os

import pandas as pd
import pytest

from cocal import Companion
from cocal.own_policy import fitting
from cocal.own_policy.evaluation import draw, read, report
from cocal.own_policy.scored import Reading
from hand_rows import lines
from own_rollouts import SMALL, killed_at, read_lines, run, write_lines


def test_a_fit_says_what_it_learnt_from_and_what_chose_its_pass(source, fit, tmp_path, capsys):
    """The counts are those of the workflow (test_companion)."""
    assert fit(source) == 0
    spec = Companion.from_pretrained(tmp_path / "companion").about.spec
    wrong = f"{100 * spec.training_error_share:.1f} % of them wrong"
    assert (
        f"It learnt from {spec.training_responses:,} responses, {wrong}; {spec.validation_responses:,} responses"
    ) in capsys.readouterr().out


def test_the_small_print_of_a_report_counts_what_is_drawn(tmp_path):
    """A question whose responses have no valid confidence is in no curve."""
    rows = [{"question_id": k // 3, "confidence": k / 60, "correct": k % 4 > 0} for k in range(48)]
    for row in rows[:6] + rows[9:10]:
        row["confidence"] = None
    scored = read(lines(tmp_path / "in.jsonl", *rows), Reading({}))
    numbers = report(scored, tmp_path / "report")
    figure = draw(scored, numbers, pd.read_csv(tmp_path / "report/reliability.csv"))
    said = [text.get_text() for text in figure.texts]
    assert said == ["in.jsonl: 41 responses to 14 questions"]
    page = (tmp_path / "report/index.html").read_text()
    assert "48" in page
    assert "7 of them have no valid confidence" in page


def test_states_that_were_kept_of_other_responses_are_not_taken(tmp_path, own, monkeypatch):
    """A killed fit goes on with a file of the same size and time, in which two responses are other ones."""
    source = write_lines(tmp_path / "mine.jsonl", own.rollouts, own.texts)
    words = ("fit", "--model", own.checkpoint, "--rollouts", source, *SMALL, "--output")
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "fit_companions", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(*words, tmp_path / "companion")
    state, rows = source.stat(), read_lines(source)
    for row in (rows[1], rows[5]):
        row["response_ids"] = row["response_ids"][1::-1] + row["response_ids"][2:]
    lines(source, *rows)
    os.utime(source, ns=(state.st_atime_ns, state.st_mtime_ns))
    if source.stat().st_size != state.st_size:
        source.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        os.utime(source, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert source.stat().st_size == state.st_size
    seen = killed_at(monkeypatch, fitting, "pooled_states", 0, 2)
    assert run(*words, tmp_path / "companion") == 0
    assert sum(seen) == len(rows), "all states are computed again"
    assert run(*words, tmp_path / "again") == 0
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "companion" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
