"""Equivalence of mathematical answers: what is equal, and what must not be."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from cocal.answers.alignment import aligned
from cocal.answers.equivalence import Verifier
from cocal.answers.notation import decided
from cocal.answers.settings import VerifierSettings
from cocal.cli import main
from verified import HANGING, equivalent

MEGABYTE = 1_000_000
PLACE = Path(__file__).parent


@pytest.fixture(scope="module")
def verifier():
    """A verifier with one process and a short time-out."""
    with Verifier(VerifierSettings(timeout=2.0)) as verifier:
        yield verifier


@pytest.mark.parametrize("name", ["same", "different"])
def test_equal_and_different_answers(verifier, name):
    """A gold answer and answers that equal it, or do not, a line each. Of those that do not, letters alone may be
    variables, and a question asks for one base."""
    rows = [line.split(" | ") for line in (PLACE / f"{name}.txt").read_text(encoding="utf-8").splitlines()]
    assert len(rows) > 80
    pairs = [(gold.strip(), answer) for gold, answers in rows for answer in answers.split("; ")]
    verdicts = equivalent(verifier, pairs)
    assert [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict != (name == "same")] == []


HOSTILE = ["", "{" * 200 + "5" + "}" * 200 + "+1", "\x00", "🙂" * 100, "5" * MEGABYTE]
"""The last of them is longer than max_answer_length."""


def test_hostile_answers_equal_nothing(verifier):
    pairs = [*(("5", text) for text in HOSTILE), ("", "5"), (HOSTILE[-1], HOSTILE[-1])]
    verdicts = equivalent(verifier, pairs)
    assert verdicts.dtype == bool
    assert not verdicts.any()


def test_correct_takes_any_alias_and_no_answer_is_wrong(verifier):
    golds = [["7", "1/2"], ["7", HANGING], ["7", "8"], ["7"], ["5", HANGING]]
    found = verifier.correct(golds, ["0.5", "7", None, "8", "7"])
    assert found.values.tolist() == [True, True, False, False, False]
    assert found.decided.tolist() == [True, True, True, True, False], "one that was given up decides on nothing else"


def test_classes_partition_each_pool_whatever_its_order(verifier):
    answers = ["1/2", "0.5", "7", None, r"\frac{2}{4}", "007", None, "x"]
    labels = verifier.classes(answers).values
    assert labels.tolist() == [0, 0, 1, -1, 0, 1, -1, 2]
    order = np.random.default_rng(0).permutation(len(answers))
    shuffled = verifier.classes([answers[i] for i in order]).values
    together = labels[:, None] == labels[None, :]
    assert ((shuffled[:, None] == shuffled[None, :]) == together[np.ix_(order, order)]).all()


def test_classes_are_numbered_within_their_pool(verifier):
    for answers, pools in ((["5", "5", "6", "6"], "abba"), (["5", "6", "6", "7"], "abab")):
        assert verifier.classes(answers, pools=list(pools)).values.tolist() == [0, 0, 1, 1]
    assert len(set(verifier.classes(HOSTILE[-1:] * 2).values)) == 2, "over-long answers are not even their like's"


@pytest.mark.parametrize(
    "text",
    [
        "0" * 512,
        "A" * 512,
        "1_" * 256,
        "(" * 512,
        "1," * 256,
        "3 " + "ab " * 170,
        r"3\text{" + "a " * 250,
        "\\" * 512,
        "." + "1" * 511,
    ],
)
def test_hostile_notation_takes_no_time(text):
    started = time.perf_counter()
    for pair in ((text, "2516_8"), ("1", text), (text, text + "1"), ("(1,2)", text)):
        aligned(*pair)
        decided(*pair)
    assert time.perf_counter() - started < 0.5


@pytest.mark.parametrize(
    ("gold", "answer", "correct", "rule"),
    [
        ("07", "7", True, "Whole numbers are equal"),
        (r"x\in[4,9]", r"\{4,9\}", False, "A list in parentheses or brackets"),
        ("31%", r"31^\circ", False, "A percentage differs"),
        (r"2(\frac{1}{2})", "1", True, "Computer algebra compares them"),
        ("7" * 600, "7", False, "An answer beyond 512 characters"),
    ],
)
def test_a_verdict_names_its_rule(verifier, gold, answer, correct, rule):
    found = verifier.explained(gold, answer)
    assert found.correct is correct
    assert found.rule.startswith(rule)


def test_the_command_judges_a_pair_and_a_file(tmp_path, capsys):
    assert main(["verify", r"x\in[4,9]", "[4,9]"]) == 0
    said = "right: Answers of the same letters and signs are equal, whatever spaces and text commands they have."
    assert capsys.readouterr().out.splitlines() == [said, "  gold    [4,9]", "  answer  [4,9]"]
    pairs = [{"gold": "5", "answer": "6", "id": 3}, {"gold": "1/2", "answer": "0.5", "id": 8}]
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in pairs))
    assert main(["verify", "--file", str(file), "--output", str(output)]) == 0
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(one["id"], one["correct"]) for one in found] == [(3, False), (8, True)]
    assert main(["verify", "5"]) == 2
    again = ["verify", "--file", str(file), "--output", str(output), "--overwrite"]
    odd = {"gold": "5", "answer": "5\u2028", "said": "ü", "correct": None}
    file.write_text("\ufeff" + json.dumps(odd) + "\n\n" + json.dumps(pairs[0], ensure_ascii=False) + "\n")
    assert main(again) == 0
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(one.get("said"), one["correct"]) for one in found] == [("ü", True), (None, False)]
    for content, message in (('{"gold": "5"}\n', "line 1: lacks texts under"), ("", "the file is empty")):
        file.write_text(content)
        assert main(again) == 2
        assert message in capsys.readouterr().err
    assert len(output.read_text().splitlines()) == 2
    output.write_text("notes of mine\n")
    assert main(again) == 2
    assert f"{output}: is nothing that `cocal verify` makes; write elsewhere" in capsys.readouterr().err
    assert output.read_text() == "notes of mine\n"
