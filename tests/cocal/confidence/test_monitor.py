"""`cocal monitor`: a companion that holds on its own policy, and one that does not on labels that say the opposite."""

import json

import numpy as np
import pandas as pd
import pytest

from cocal import Companion
from cocal.fitting.quality import WRONG_WAY, measured
from cocal.metrics.settings import MetricSettings
from hand_rows import lines
from micro import own_copy, scale_weights
from own_rollouts import read_lines, run, write_lines

FAIR = ["--max-ece", "1", "--min-auroc", "0", "--max-brier", "1"]
"""Bounds that nothing leaves."""


@pytest.fixture
def source(tmp_path, own):
    """The rollouts as those of later steps, with the same prompts."""
    return write_lines(tmp_path / "later.jsonl", own.rollouts.assign(step=own.rollouts["step"] + 7), own.texts)


@pytest.fixture
def monitor(tmp_path, own):
    """`cocal monitor` with few resamples; returns its status."""

    def command(rollouts, *more, model=None):
        given = "--companion", own.companion, "--model", model or own.checkpoint, "--rollouts", rollouts
        words = "monitor", *given, "--output", tmp_path / "monitor.csv", "--resamples", "200", *more
        try:
            return run(*words)
        except SystemExit as end:
            return end.code

    return command


def test_the_numbers_are_those_of_scoring_and_measuring(tmp_path, own, source, monitor, capsys, caplog):
    """A line for each checkpoint, of which the second has other weights."""
    later = own_copy(own.checkpoint, tmp_path / "later")
    scale_weights(later, 1.1)
    last = own.rollouts["step"].max() + 7
    for model, told in ((own.checkpoint, True), (later, False)):  # the second does not say its step
        caplog.clear()
        assert monitor(source, *FAIR, model=model) == 0
        assert (f"the checkpoint is of step 0, but the rollouts end at step {last}" in caplog.text) == told
    found = pd.read_csv(tmp_path / "monitor.csv")
    assert found["checkpoint"].tolist() == [str(own.checkpoint), str(later)]
    assert found["holds"].all()
    assert found["step"].tolist() == [0, last]  # told by the checkpoint, or else by the rollouts
    rows, companion = own.rollouts, Companion.from_pretrained(own.companion)
    given = (rows[name].map(list).tolist() for name in ("prompt_ids", "response_ids"))
    confidence = companion.score(*own.policy, *given)
    expected = measured(rows["question_id"], confidence, rows["correct"].to_numpy(), MetricSettings(resamples=200))
    expected = expected.set_index("metric")
    for name in ("ece", "auroc", "brier"):
        assert found[name][0] == pytest.approx(expected.at[name, "value"], rel=1e-9)
        assert found[f"{name}_lower"][0] < found[name][0] < found[f"{name}_upper"][0]
    assert not np.isclose(found["brier"][0], found["brier"][1])
    assert found[["responses", "questions"]].iloc[0].tolist() == [len(rows), rows["question_id"].nunique()]
    said = capsys.readouterr().out
    assert "the companion holds" in said
    assert "  labels: 1 means correct, 0 wrong; " in said
    assert f"{len(rows)} of {len(rows)} prompts are among those that the companion learnt from" in said


def test_a_bound_is_left_where_the_whole_interval_is_worse(tmp_path, own, source, monitor, capsys):
    assert monitor(source, *FAIR) == 0
    one = pd.read_csv(tmp_path / "monitor.csv").iloc[0]
    for flag, name, beyond, sign in (
        *(("--max-ece", "ece", "ece_lower", -1), ("--max-brier", "brier", "brier_lower", -1)),
        ("--min-auroc", "auroc", "auroc_upper", 1),
    ):
        place = FAIR.index(flag) + 1
        for step, status in ((1e-6, 3), (-1e-6, 0)):
            bounds = [*FAIR]
            bounds[place] = f"{one[beyond] + sign * step:.12f}"
            capsys.readouterr()
            assert monitor(source, *bounds) == status, (flag, step)
            said = capsys.readouterr().out
            assert (f"no longer holds ({name})" in said) == bool(status)
    lines = pd.read_csv(tmp_path / "monitor.csv")
    assert lines["holds"].tolist() == [True, *[False, True] * 3]


def test_labels_the_wrong_way_round_are_told(tmp_path, own, source, monitor, caplog):
    """The labels say what the companion says, and then the opposite."""
    given = (own.rollouts[name].map(list).tolist() for name in ("prompt_ids", "response_ids"))
    confidence = Companion.from_pretrained(own.companion).score(*own.policy, *given)
    for said, told in ((confidence > np.median(confidence), False), (confidence < np.median(confidence), True)):
        rows = (row | {"correct": correct} for row, correct in zip(read_lines(source), said.tolist(), strict=True))
        caplog.clear()
        assert monitor(lines(tmp_path / "labelled.jsonl", *rows), *FAIR) == 0
        assert (WRONG_WAY in caplog.text) == told


def test_answers_may_have_another_limit_than_the_rollouts(tmp_path, own, monitor, capsys):
    rows = (row | {"step": 11} for path in sorted(own.verl.glob("*.jsonl")) for row in read_lines(path))
    later = lines(tmp_path / "texts.jsonl", *rows)
    assert monitor(later, *FAIR, "--max-response-length", "2") == 2
    assert "longer than --max-response-length 2 (up to " in capsys.readouterr().err
    assert monitor(later, *FAIR, "--max-response-length", "500") == 0


def test_a_value_beyond_its_bound_within_its_interval_is_told(tmp_path, source, monitor, capsys):
    assert monitor(source, *FAIR) == 0
    one = pd.read_csv(tmp_path / "monitor.csv").iloc[0]
    bounds = [*FAIR]
    bounds[FAIR.index("--max-brier") + 1] = f"{(one['brier'] + one['brier_lower']) / 2:.12f}"
    bounds[FAIR.index("--min-auroc") + 1] = f"{(one['auroc'] + one['auroc_upper']) / 2:.12f}"
    assert monitor(source, *bounds) == 0
    assert "not shown to be worse, but auroc, brier lies beyond the bound" in capsys.readouterr().out


def test_a_label_of_another_name_than_at_the_fit_is_read(tmp_path, own, monitor, capsys):
    rows = read_lines(write_lines(tmp_path / "a.jsonl", own.rollouts, own.texts))
    named = lines(tmp_path / "named.jsonl", *({**row, "right": row["correct"], "correct": None} for row in rows))
    assert own.fit(named, tmp_path / "companion", "--field", "correct=right") == 0
    later = ({**row, "step": 90, "reward": float(row.pop("correct"))} for row in rows[1:])
    other = lines(tmp_path / "other.jsonl", *later)
    words = "--companion", tmp_path / "companion", "--field", "reward=reward"
    assert monitor(other, *FAIR, *words) == 0
    assert monitor(other, *FAIR, *words[:2]) == 2
    assert "for --field correct=right; its fields are " in (error := capsys.readouterr().err)
    assert error.endswith("(the name is remembered from the fit: give another by --field)\n")


def test_the_bounds_are_those_of_the_card_where_none_is_given(tmp_path, own, source, monitor):
    companion = Companion.from_pretrained(own.companion)
    held = companion.config.held_out
    wide = tuple(one.model_copy(update={"lower": one.value / 3, "upper": one.value / 2 + 0.5}) for one in held.metrics)
    companion.config = companion.config.model_copy(update={"held_out": held.model_copy(update={"metrics": wide})})
    companion.save_pretrained(tmp_path / "companion")
    wanted = {one.metric: one for one in wide}
    words = source, "--companion", tmp_path / "companion"
    monitor(*words)
    table = tmp_path / "monitor.csv"
    found = pd.read_csv(table).iloc[0]
    table.write_text(table.read_text().rstrip("\n"))  # as some editors leave it
    monitor(*words, "--max-ece", "0.875")
    assert len(pd.read_csv(table)) == 2
    for name, end in (("ece", "upper"), ("auroc", "lower"), ("brier", "upper")):
        assert found[f"{name}_bound"] == pytest.approx(getattr(wanted[name], end))


def test_lines_name_their_companion_and_none_stands_twice(tmp_path, own, source, monitor, capsys):
    companion = Companion.from_pretrained(own.companion)
    companion.config = companion.config.model_copy(update={"unlikely": -3.25})
    companion.save_pretrained(tmp_path / "other")
    assert monitor(source, *FAIR) == 0
    table = tmp_path / "monitor.csv"
    head, line = (row.rpartition(",") for row in table.read_text().splitlines())
    table.write_text(f"{head[0]}\n{line[0]}\n")  # as before there was a column
    for _ in range(2):
        assert monitor(source, *FAIR) == 0
    assert capsys.readouterr().out.count("has this line already") == 1
    assert monitor(source, *FAIR, "--companion", tmp_path / "other") == 0
    rows = table.read_text().splitlines()
    names = [Companion.from_pretrained(place).identity()[:12] for place in (own.companion, tmp_path / "other")]
    assert rows[:3] == [f"{head[0]},companion", f"{line[0]},", f"{line[0]},{names[0]}"]
    assert [row.rpartition(",")[2] for row in rows[3:]] == names[1:] != names[:1]


def test_a_card_without_intervals_holds_nothing(tmp_path, own, source, monitor, capsys):
    """Nor does it say so: then a bound has to be given."""
    companion = Companion.from_pretrained(own.companion)
    companion.config = companion.config.model_copy(update={"held_out": None})
    companion.save_pretrained(tmp_path / "unmeasured")
    assert monitor(source, "--companion", tmp_path / "unmeasured") == 2
    assert "unmeasured: its card has no interval to hold new numbers against; give a bound" in capsys.readouterr().err
    assert monitor(source, "--companion", tmp_path / "unmeasured", "--max-ece", "1") == 0
    assert "auroc" in (printed := capsys.readouterr().out)
    assert printed.count("no bound") == 2


def test_what_cannot_be_monitored_is_refused_in_one_sentence(tmp_path, own, source, monitor, capsys):
    few = tmp_path / "few.jsonl"
    rows = source.read_text().splitlines()
    few.write_text("\n".join(line for line in rows if json.loads(line)["question_id"] in own.texts.index[:9]) + "\n")
    assert monitor(few, *FAIR) == 2
    assert "give no interval; it takes at least 10" in capsys.readouterr().err
    assert monitor(own.verl, *FAIR) == 2
    assert f"{own.verl}: the companion has learnt from these rollouts" in capsys.readouterr().err
    part = lines(tmp_path / "part.jsonl", *read_lines(write_lines(tmp_path / "all.jsonl", own.rollouts, own.texts))[3:])
    assert monitor(part, *FAIR) == 2
    assert f"{part}: the companion has learnt from rollouts of these prompts and steps" in capsys.readouterr().err
    (tmp_path / "monitor.csv").write_text("my,own,table\n1,2,3\n")
    assert monitor(source, *FAIR) == 2
    assert "monitor.csv: exists, and does not say that `cocal monitor` has made it" in capsys.readouterr().err
    assert (tmp_path / "monitor.csv").read_text() == "my,own,table\n1,2,3\n"
