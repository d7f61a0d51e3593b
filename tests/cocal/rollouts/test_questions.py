"""Responses to one question stay together, whatever ids their rows state: split, groups, intervals and certificates."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from cocal import Companion
from cocal.errors import ContractError
from cocal.rollouts.encoding import Encoder
from cocal.rollouts.experience import experience_of
from cocal.rollouts.files import find
from cocal.rollouts.format import Reading
from cocal.rollouts.questions import copies
from hand_rows import lines
from own_rollouts import read_lines, run

IDS = {
    "a row": lambda row, line: f"row-{row}",
    "a step": lambda row, line: line["question_id"] + f" in step {line['step']}",
    "a file": lambda row, line: "train",
    "sane": lambda row, line: line["question_id"],
    "none": lambda row, line: None,
}
"""Question ids that tell rows apart, steps of a question, nothing, questions; and no ids."""


@pytest.fixture
def named(source, tmp_path):
    """The rollouts with other ids, and with some of the fields that hold their prompts."""

    def write(ids, *without):
        found = []
        for row, line in enumerate(read_lines(source)):
            line["question_id"] = IDS[ids](row, line)
            found.append({name: value for name, value in line.items() if name not in without and value is not None})
        return lines(tmp_path / f"{ids}.jsonl", *found)

    return write


def learnt(own, path):
    """The rollouts of a file as a fit reads them."""
    return experience_of(find([path]).samples(Reading(), Counter()), Encoder(own.policy))


@pytest.mark.parametrize("without", [["prompt"], []], ids=["ids", "texts"])
def test_question_ids_do_not_move_the_split(own, named, without):
    """Rows that the ids tell apart have one prompt: no prompt is in training and validation, and the same are held
    out as without ids."""
    splits = {}
    for ids in ("a row", "a step", "a file", "none"):
        rows = learnt(own, named(ids, *without)).rows
        prompts = rows["prompt_ids"].map(tuple)
        assert (prompts.groupby(rows["question"]).nunique() == 1).all()
        assert (rows.groupby(prompts)["question"].nunique() == 1).all()
        splits[ids] = rows["question"].tolist(), rows["group_accuracy"].tolist(), rows["sample"].tolist()
    assert splits["a row"] == splits["a step"] == splits["a file"] == splits["none"]
    sizes = rows.groupby(["step", "question"])["correct"]
    np.testing.assert_allclose(rows["group_accuracy"], sizes.transform("mean"))
    assert rows["sample"].max() + 1 == sizes.size().max() > 1


def test_a_card_counts_prompts_and_not_ids(own, named, fit, tmp_path, capsys):
    assert fit(named("a row", "prompt"), to="a row") == 0
    config = Companion.from_pretrained(tmp_path / "a row").config
    quality = config.held_out_all_steps or config.held_out
    assert quality.questions < quality.responses
    sizes = own.rollouts.groupby("question_id").size()
    assert quality.questions == max(1, round(len(sizes) / 10))
    assert f"{len(sizes)} prompts stand under more than one question_id" in "\n".join(config.notes)
    assert fit(named("a file"), to="file") == 0
    assert "and 1 values of question_id for more than one prompt" in "\n".join(
        Companion.from_pretrained(tmp_path / "file").config.notes
    )


def test_sane_ids_are_said_nothing_of(own, named):
    found = learnt(own, named("sane", "prompt"))
    assert not any("question_id" in note for note in found.notes if not note.startswith("fields"))


GROUPS = {
    "restarted by two ranks": (lambda line, place: place % 2, "groups hold responses to several prompts"),
    "of a row": (lambda line, place: place, "no two responses to a prompt have the same group"),
    "sane": (lambda line, place: line["question_id"], None),
}


@pytest.mark.parametrize("kind", GROUPS)
def test_groups_hold_the_responses_to_one_prompt(own, named, tmp_path, kind):
    group, said = GROUPS[kind]
    given = read_lines(named("sane"))
    order = {}  # of the prompts of a step
    for place, line in enumerate(given):
        prompts = order.setdefault(line["step"], [])
        if line["prompt"] not in prompts:
            prompts.append(line["prompt"])
        line["group"] = group(line, place if kind == "of a row" else prompts.index(line["prompt"]))
    found = learnt(own, lines(tmp_path / "groups.jsonl", *given))
    sizes = found.rows.groupby(["step", "question"])["correct"]
    np.testing.assert_allclose(found.rows["group_accuracy"], sizes.transform("mean"))
    assert [note for note in found.notes if "group" in note and not note.startswith("fields")][:1] != []
    assert said is None or said in "\n".join(found.notes)
    assert said is not None or not any("prompt have" in note or "several prompts" in note for note in found.notes)


def test_rows_without_a_text_are_those_of_their_token_ids_then_of_their_names():
    from cocal.rollouts.questions import same_question

    rows = [
        ("What is  2?", b"2", "x"),
        ("what is 2?", b"3", "y"),
        (None, b"3", "z"),
        (None, b"5", "z"),
        (None, None, "y"),
        (None, None, None),
        (None, None, None),
        ("Other", b"2", "x"),
        (None, b"5", None),
    ]
    assert same_question(*zip(*rows, strict=True)).tolist() == [0, 0, 0, 1, 0, 2, 3, 4, 1]


def scored(count, size, seed, ids, prefix="", **more):
    """Lines of responses to questions whose skill differs; `ids` gives the id of a row."""
    draw = np.random.default_rng(seed)
    found = []
    for question in range(count):
        skill = draw.random()
        for place in range(size):
            correct, row = bool(draw.random() < skill), question * size + place
            line = {"prompt_ids": [7, question, len(prefix)], "confidence": 0.2 + 0.6 * skill + place / 1000}
            found.append(line | {"correct": correct, "question_id": ids(question, row)} | more)
    return found


def numbers(tmp_path, given):
    path = lines(tmp_path / "scored.jsonl", *given)
    assert run("evaluate", path, "--output", tmp_path / "report", "--resamples", "200", "--overwrite") == 0
    return pd.read_csv(tmp_path / "report/numbers.csv").set_index("metric")


def test_intervals_of_an_evaluation_resample_prompts(tmp_path, capsys):
    """Ids of rows would make intervals narrower, and one id for all of them none."""
    widths = {}
    for kind, ids in {"sane": lambda q, r: f"q{q}", "rows": lambda q, r: r, "one": lambda q, r: "train"}.items():
        found = numbers(tmp_path, scored(40, 8, 3, ids)).loc["accuracy"]
        widths[kind] = found["upper"] - found["lower"]
        printed = capsys.readouterr().out
        assert "320 responses to 40 questions" in printed
        assert ("40 prompts stand under more than one question_id, and 0" in printed) == (kind == "rows")
        assert ("and 1 values of question_id for more than one prompt" in printed) == (kind == "one")
    assert widths["rows"] == pytest.approx(widths["sane"], rel=0.2)
    assert widths["one"] == pytest.approx(widths["sane"], rel=0.2)
    given = scored(40, 8, 3, lambda q, r: r)
    for row, one in enumerate(given):  # chats, every other with its fields in another order
        message = {"role": "user", "content": f"{one.pop('prompt_ids')[1]}"}
        one["messages"] = [dict(reversed(message.items())) if row % 2 else message]
    found = numbers(tmp_path, given).loc["accuracy"]
    assert found["upper"] - found["lower"] == pytest.approx(widths["sane"], rel=0.2)


def test_a_calibration_with_the_prompts_of_the_decided_file_is_refused(tmp_path, capsys):
    new = lines(tmp_path / "new.jsonl", *scored(20, 8, 4, lambda q, r: f"n{r}"))
    old = lines(tmp_path / "old.jsonl", *scored(9, 8, 3, lambda q, r: f"o{r}"))
    words = ("decide", "abstain", new, "--calibration", old, "--output", tmp_path / "out.jsonl")
    assert run(*words) == 2
    assert f"9 of its questions are also in {new}" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()
    other = lines(tmp_path / "other.jsonl", *scored(9, 8, 3, lambda q, r: f"n{r}", "other"))
    assert run("decide", "abstain", new, "--calibration", other, "--output", tmp_path / "out.jsonl") == 0


def test_copies_are_counted_and_refused_where_the_order_is_the_same():
    rows = [(k // 3, f"text {k % 3}") for k in range(24)]
    assert copies(rows, "line {}".format, "step and text") == []
    assert copies([*rows, rows[5]], "line {}".format, "step and text") == [
        "1 rows repeat step and text of others; delete those that are copies"
    ]
    (said,) = copies([*rows, *rows[::-1]], "line {}".format, "step and text")
    assert said.startswith("24 rows repeat step and text of others")
    with pytest.raises(ContractError, match=r"^line 24: from here on the rows repeat those before it"):
        copies([*rows, *rows], "line {}".format, "step and text")
    for few in (rows[:4] * 2, rows[:4] * 20):  # too few different ones to tell
        assert len(copies(few, "line {}".format, "step and text")) == 1
