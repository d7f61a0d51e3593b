"""`cocal decide`: responses chosen from scored lines, questions answered or not, wrong lines named."""

import numpy as np
import pytest

from cocal.metrics.choices import candidates, certified
from cocal.own_policy.scored import Reading, read_scored
from hand_rows import lines
from own_rollouts import read_lines


def line(question, confidence, boxed, correct=None, **more):
    found = {"question_id": question, "response": f"So \\boxed{{{boxed}}}", "confidence": confidence, **more}
    return found if correct is None else found | {"correct": correct}


POOL = [
    line("a", 0.4, "1/2", True),
    line("a", 0.5, "7", False),
    line("b", 0.9, "3", False),  # the questions' lines need not stand together
    line("a", 0.3, "0.5", True),
    line("b", 0.2, "4", True),
    line("b", 0.2, "4.0", True),
    line("b", 0.3, "4", True),
    line("c", None, "5", False),
    line("c", 0.1, "6", True),
]


def test_best_of_n_writes_the_most_confident_response_of_each_question(decide, capsys):
    chosen = [POOL[1] | {"responses": 3}, POOL[2] | {"responses": 4}, POOL[8] | {"responses": 2}]
    assert decide("best-of-n", POOL) == (0, chosen)
    printed = capsys.readouterr().out
    assert "the best of n decides 3 questions" in printed
    assert "3 of them get another answer than that of the majority vote" in printed  # c is a tie: the first answer
    assert "2 of them get another answer than that of the first response" in printed
    for rule, accuracy in (("best of n", "33.3"), ("majority vote", "66.7"), ("first response", "33.3")):
        assert f"accuracy of the {rule:<26} {accuracy:>5} %  (" in printed


def test_a_vote_adds_the_confidences_of_equivalent_answers(decide, capsys):
    done, chosen = decide("vote", POOL, "--resamples", "20")
    assert done == 0
    assert [one["response"] for one in chosen] == [POOL[0]["response"], POOL[2]["response"], POOL[8]["response"]]
    np.testing.assert_allclose([one["vote_share"] for one in chosen], [0.7 / 1.2, 0.9 / 1.6, 1])
    assert "accuracy of the confidence-weighted vote    66.7 %" in capsys.readouterr().out


@pytest.mark.parametrize("field", ["answer", "final"])
def test_answers_may_stand_in_a_field_and_be_factual(decide, capsys, field):
    given = [line("a", 0.4, "x", **{field: "The Moon"}), line("a", 0.5, "x", **{field: "sun"})]
    given += [line("a", 0.3, "x", **{field: "moon"}), line("b", 0.4, "x", **{field: None})]
    given += [line("b", None, "x", **{field: 7})]
    done, chosen = decide("vote", given, "--domain", "factual", *(["--answer", field] if field != "answer" else []))
    assert done == 0
    assert [one[field] for one in chosen] == ["The Moon", 7]
    assert chosen[1]["vote_share"] is None  # the only vote has no weight
    printed = capsys.readouterr().out
    assert f"answers: the field {field!r}" in printed
    assert "no labels, so the accuracy is unknown" in printed


def test_a_field_of_right_answers_is_noticed(decide, capsys):
    golds = [one | {"answer": one["question_id"]} for one in POOL]
    for flags, agree in (((), True), (("--answer", "boxed"), False)):
        assert decide("vote", golds, *flags)[0] == 0
        assert ("All responses to a question agree" in capsys.readouterr().out) is agree


@pytest.fixture
def many(tmp_path):
    """Calibration and new questions, whose risk falls with the confidence; two responses to each question."""
    draw = np.random.default_rng(0)

    def of(name, count):
        sure = draw.random(count)
        right = draw.random(count) > 0.5 * (1 - sure) ** 2
        found = []
        for place, (confidence, correct) in enumerate(zip(sure.tolist(), right.tolist(), strict=True)):
            found.append(line(f"{name}-{place}", confidence / 2, "0", False))  # never the one that is given
            found.append(line(f"{name}-{place}", confidence, "1", correct))
        return found

    return lines(tmp_path / "old.jsonl", *of("old", 400)), of("new", 300)


def test_a_certified_threshold_decides_who_is_answered(tmp_path, decide, capsys, many):
    calibration, new = many
    old = read_lines(calibration)
    done, chosen = decide("abstain", new, "--calibration", calibration)
    assert done == 0
    confidence, correct = (np.array([one[name] for one in old[1::2]]) for name in ("confidence", "correct"))
    offered = candidates(np.array([one["confidence"] for one in new[1::2]]))
    threshold = certified(confidence, correct, offered, max_risk=0.1, delta=0.1)
    assert 0.05 < threshold < 0.9
    expected = [one | {"decision": "answer" if one["confidence"] >= threshold else "abstain"} for one in new[1::2]]
    assert chosen == expected
    printed = capsys.readouterr().out
    assert f"threshold {threshold!r}: questions" in printed
    assert "probability of at least 90 %, at most 10 % of answered questions from this source are wrong" in printed
    wrong = np.mean([not one["correct"] for one in expected if one["decision"] == "answer"])
    assert f"wrong among the answered: {100 * wrong:.1f} %" in printed

    unlabelled = [{k: v for k, v in one.items() if k != "correct"} for one in new]
    _, later = decide("abstain", unlabelled, "--threshold", repr(threshold))
    assert [one["decision"] for one in later] == [one["decision"] for one in expected]
    assert "wrong among" not in capsys.readouterr().out

    renamed = [[one | {"id": one.pop("question_id")} for one in given] for given in (old, new)]
    flags = [
        "--calibration",
        lines(calibration, *renamed[0]),
        "--field",
        "question_id=id",
        "--field",
        "correct=correct",
    ]
    assert decide("abstain", renamed[1], *flags)[0] == 0
    assert f"--threshold {threshold!r} --output OUT --field question_id=id\n" in capsys.readouterr().out


def test_bounds_are_those_of_the_flags(decide, many, capsys):
    calibration, new = many
    answered = []
    for flags in ([], ["--max-risk", "0.2"], ["--delta", "0.5"], ["--max-risk", "0.01"]):
        _, chosen = decide("abstain", new, "--calibration", calibration, *flags)
        answered.append(sum(one["decision"] == "answer" for one in chosen))
    assert answered[1] > answered[0] > 0
    assert answered[2] > answered[0]
    assert answered[3] == 0
    printed = capsys.readouterr().out
    assert "No threshold can be certified" in printed
    assert "390 with confident and right responses do" in printed


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"confidence": 0.5}, "nothing tells which question was answered; give a question_id or a prompt"),
        (line("d", 0.5, "1", True, responses=4), "there is a field 'responses' already; decide on the file of"),
        (line("d", 0.5, "1", True, answer=[1]), "field 'answer' is [1], neither a text nor a number"),
    ],
)
def test_a_line_that_cannot_be_decided_is_named(tmp_path, decide, capsys, bad, message):
    assert decide("best-of-n", [line("a", 0.5, "1", True, answer="1"), bad]) == (2, None)
    error = capsys.readouterr().err
    assert f"{tmp_path / 'scored.jsonl'}: line 2: {message}" in error
    assert error.count("\n") == 1


def test_files_that_certify_nothing_are_refused(decide, capsys, many):
    calibration, new = many
    old = read_lines(calibration)
    for given, message in (
        ([{k: v for k, v in one.items() if k != "correct"} for one in old], "the lines have no labels; a threshold is"),
        (old + new[:2], "1 of its questions are also in"),
        (old[1::2], "up to 1 responses to a question, but up to 2 in"),
    ):
        assert decide("abstain", new, "--calibration", lines(calibration, *given)) == (2, None)
        assert f"{calibration}: {message}" in capsys.readouterr().err
    assert decide("vote", [{"question_id": "a", "response": "nothing boxed", "confidence": 0.5}])[0] == 2
    assert "nothing to vote on, since no response has an answer (the last box of each" in capsys.readouterr().err


def test_a_response_that_is_not_read_is_told_with_the_remedy(decide, capsys):
    """`vote` has nothing to vote on; `best-of-n` says why it is not compared with the majority."""
    renamed = [{("text" if name == "response" else name): value for name, value in one.items()} for one in POOL]
    assert decide("vote", renamed)[0] == 2
    remedy = "no response has an answer (no field is read as the response): name the field of the response that ends in"
    error = capsys.readouterr().err
    assert f"there is nothing to vote on, since {remedy}" in error
    assert "--field response=FIELD" in error
    assert decide("best-of-n", renamed)[0] == 0
    printed = capsys.readouterr().out
    assert f"It is not compared with the majority vote, since {remedy}" in printed
    assert "accuracy of the majority" not in printed
    assert decide("best-of-n", renamed, "--field", "response=text")[0] == 0
    assert f"accuracy of the {'majority vote':<26}  66.7 %" in capsys.readouterr().out


def test_prompts_tell_questions_apart_where_there_are_no_ids(tmp_path):
    rows = [{"prompt": text, "output": "x", "confidence": 0.5, "score": -1.0} for text in ("p", "q", "p")]
    source = lines(tmp_path / "scored.jsonl", *rows, rows[0] | {"score": 1.0})
    found = read_scored(source, Reading({}), answers=True)
    assert found.question.tolist() == [0, 1, 0, 0]
    assert found.correct.tolist() == [False, False, False, True]
    assert found.answers == [None] * 4
