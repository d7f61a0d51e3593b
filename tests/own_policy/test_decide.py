"""`cocal decide`: responses chosen from scored lines, questions answered or not, wrong lines named."""

import json

import numpy as np
import pytest

from cocal.metrics.abstention import candidates, certified
from cocal.own_policy.scored import Reading, read_scored
from own_rollouts import read_lines, run


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


def written(folder, lines, name="scored.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    return path


def test_best_of_n_writes_the_most_confident_response_of_each_question(tmp_path, capsys):
    source = written(tmp_path, POOL)
    assert run("decide", "best-of-n", source, "--output", tmp_path / "out.jsonl") == 0
    chosen = [POOL[1] | {"responses": 3}, POOL[2] | {"responses": 4}, POOL[8] | {"responses": 2}]
    assert read_lines(tmp_path / "out.jsonl") == chosen
    printed = capsys.readouterr().out
    assert "the best of n decides 3 questions" in printed
    assert "3 of them get another answer than that of the majority vote" in printed  # c is a tie: the first answer
    assert "2 of them get another answer than that of the first response" in printed
    for rule, accuracy in (("best of n", "33.3"), ("majority vote", "66.7"), ("first response", "33.3")):
        assert f"accuracy of the {rule:<26} {accuracy:>5} %  (" in printed


def test_a_vote_adds_the_confidences_of_equivalent_answers(tmp_path, capsys):
    source = written(tmp_path, POOL)
    assert run("decide", "vote", source, "--output", tmp_path / "out.jsonl", "--resamples", "20") == 0
    lines = read_lines(tmp_path / "out.jsonl")
    assert [one["response"] for one in lines] == [POOL[0]["response"], POOL[2]["response"], POOL[8]["response"]]
    np.testing.assert_allclose([one["vote_share"] for one in lines], [0.7 / 1.2, 0.9 / 1.6, 1])
    assert "accuracy of the confidence-weighted vote    66.7 %" in capsys.readouterr().out


def test_answers_may_stand_in_a_field_and_be_factual(tmp_path, capsys):
    lines = [
        line("a", 0.4, "x", answer="The Moon"),
        line("a", 0.5, "x", answer="sun"),
        line("a", 0.3, "x", answer="moon"),
    ]
    lines += [line("b", 0.4, "x", answer=None), line("b", None, "x", answer=7)]
    source = written(tmp_path, lines)
    assert run("decide", "vote", source, "--output", tmp_path / "out.jsonl", "--domain", "factual") == 0
    assert [one["answer"] for one in read_lines(tmp_path / "out.jsonl")] == ["The Moon", 7]
    assert read_lines(tmp_path / "out.jsonl")[1]["vote_share"] is None  # the only vote has no weight
    printed = capsys.readouterr().out
    assert "answers: the field 'answer'" in printed
    assert "no labels, so the accuracy is unknown" in printed
    golds = written(tmp_path, [one | {"answer": one["question_id"]} for one in POOL])
    for flags, agree in (((), True), (("--answer", "boxed"), False)):
        assert run("decide", "vote", golds, "--output", tmp_path / "c.jsonl", "--overwrite", *flags) == 0
        assert ("All responses to a question agree" in capsys.readouterr().out) is agree
    renamed = [{("final" if k == "answer" else k): v for k, v in one.items()} for one in lines]
    source = written(tmp_path, renamed)
    assert run("decide", "vote", source, "--output", tmp_path / "b.jsonl", "--answer", "final", "--domain=factual") == 0
    assert [one["final"] for one in read_lines(tmp_path / "b.jsonl")] == ["The Moon", 7]


@pytest.fixture
def many(tmp_path):
    """Calibration and new questions, whose risk falls with the confidence; two responses to each question."""
    draw = np.random.default_rng(0)

    def lines(name, count):
        sure = draw.random(count)
        right = draw.random(count) > 0.5 * (1 - sure) ** 2
        found = []
        for place, (confidence, correct) in enumerate(zip(sure.tolist(), right.tolist(), strict=True)):
            found.append(line(f"{name}-{place}", confidence / 2, "0", False))  # never the one that is given
            found.append(line(f"{name}-{place}", confidence, "1", correct))
        return found

    return lines("old", 400), lines("new", 300)


def test_a_certified_threshold_decides_who_is_answered(tmp_path, capsys, many):
    old, new = many
    calibration, source = written(tmp_path, old, "old.jsonl"), written(tmp_path, new)
    output = tmp_path / "out.jsonl"
    assert run("decide", "abstain", source, "--calibration", calibration, "--output", output) == 0
    confidence, correct = (np.array([one[name] for one in old[1::2]]) for name in ("confidence", "correct"))
    offered = candidates(np.array([one["confidence"] for one in new[1::2]]))
    threshold = certified(confidence, correct, offered, max_risk=0.1, delta=0.1)
    assert 0.05 < threshold < 0.9
    expected = [one | {"decision": "answer" if one["confidence"] >= threshold else "abstain"} for one in new[1::2]]
    assert read_lines(output) == expected
    printed = capsys.readouterr().out
    assert f"threshold {threshold!r}: questions" in printed
    assert "probability of at least 90 %, at most 10 % of answered questions from this source are wrong" in printed
    wrong = np.mean([not one["correct"] for one in expected if one["decision"] == "answer"])
    assert f"wrong among the answered: {100 * wrong:.1f} %" in printed

    unlabelled = written(tmp_path, [{k: v for k, v in one.items() if k != "correct"} for one in new], "plain.jsonl")
    later = tmp_path / "later.jsonl"
    assert run("decide", "abstain", unlabelled, "--threshold", repr(threshold), "--output", later) == 0
    assert [one["decision"] for one in read_lines(later)] == [one["decision"] for one in expected]
    assert "wrong among" not in capsys.readouterr().out

    renamed = [[{("id" if k == "question_id" else k): v for k, v in one.items()} for one in lines] for lines in many]
    calibration, source = written(tmp_path, renamed[0], "b.jsonl"), written(tmp_path, renamed[1], "c.jsonl")
    flags = ["--calibration", calibration, "--output", tmp_path / "d.jsonl", "--field", "question_id=id"]
    assert run("decide", "abstain", source, *flags, "--field", "correct=correct") == 0
    assert f"--threshold {threshold!r} --output OUT --field question_id=id\n" in capsys.readouterr().out


def test_bounds_are_those_of_the_flags(tmp_path, many, capsys):
    calibration, source = written(tmp_path, many[0], "old.jsonl"), written(tmp_path, many[1])
    command = ("decide", "abstain", source, "--calibration", calibration, "--output", tmp_path / "out.jsonl")
    answered = []
    for flags in ([], ["--max-risk", "0.2"], ["--delta", "0.5"], ["--max-risk", "0.01"]):
        assert run(*command, "--overwrite", *flags) == 0
        answered.append(sum(one["decision"] == "answer" for one in read_lines(tmp_path / "out.jsonl")))
    assert answered[1] > answered[0] > 0
    assert answered[2] > answered[0]
    assert answered[3] == 0
    printed = capsys.readouterr().out
    assert "No threshold can be certified" in printed
    assert "390 with confident and right responses do" in printed


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"question_id": "d"}, "line 2: there is no field 'confidence'; add it by `cocal score`"),
        ({"question_id": "d", "confidence": 2}, "line 2: field 'confidence' is 2, not a confidence from 0 to 1"),
        ({"question_id": "d", "confidence": True}, "line 2: field 'confidence' is True, not a confidence from 0 to 1"),
        ({"confidence": 0.5}, "line 2: nothing tells which question was answered; give a question_id or a prompt"),
        ({"question_id": "d", "confidence": 0.5}, "line 2: the response has no label; give `correct` or a reward"),
        (
            {"question_id": "d", "confidence": 0.5, "correct": "so"},
            "line 2: field 'correct' is 'so', neither true nor false",
        ),
        (line("d", 0.5, "1", True, responses=4), "line 2: there is a field 'responses' already; decide on the file of"),
        (line("d", 0.5, "1", True, answer=[1]), "line 2: field 'answer' is [1], neither a text nor a number"),
    ],
)
def test_a_line_that_cannot_be_decided_is_named(tmp_path, capsys, bad, message):
    source = written(tmp_path, [line("a", 0.5, "1", True, answer="1"), bad])
    assert run("decide", "best-of-n", source, "--output", tmp_path / "out.jsonl") == 2
    error = capsys.readouterr().err
    assert f"{source}: {message}" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out.jsonl").exists()


def test_files_that_certify_nothing_are_refused(tmp_path, capsys, many):
    old, new = many
    source = written(tmp_path, new)
    for lines, message in (
        ([{k: v for k, v in one.items() if k != "correct"} for one in old], "the lines have no labels; a threshold is"),
        (old + new[:2], "1 of its questions are also in"),
        (old[1::2], "up to 1 responses to a question, but up to 2 in"),
    ):
        calibration = written(tmp_path, lines, "old.jsonl")
        command = ("decide", "abstain", source, "--calibration", calibration, "--output", tmp_path / "out.jsonl")
        assert run(*command) == 2
        assert f"{calibration}: {message}" in capsys.readouterr().err
    plain = [{"question_id": "a", "response": "nothing boxed", "confidence": 0.5}]
    assert run("decide", "vote", written(tmp_path, plain), "--output", tmp_path / "out.jsonl") == 2
    assert "nothing to vote on, since no response has an answer (the last box of each" in capsys.readouterr().err


def test_a_response_that_is_not_read_is_told_with_the_remedy(tmp_path, capsys):
    """`vote` has nothing to vote on; `best-of-n` says why it is not compared with the majority."""
    renamed = [{("text" if name == "response" else name): value for name, value in one.items()} for one in POOL]
    source, output = written(tmp_path, renamed), tmp_path / "out.jsonl"
    assert run("decide", "vote", source, "--output", output) == 2
    remedy = "no response has an answer (no field is read as the response): name the field of the response that ends in"
    error = capsys.readouterr().err
    assert f"there is nothing to vote on, since {remedy}" in error
    assert "--field response=FIELD" in error
    assert run("decide", "best-of-n", source, "--output", output) == 0
    printed = capsys.readouterr().out
    assert f"It is not compared with the majority vote, since {remedy}" in printed
    assert "accuracy of the majority" not in printed
    again = tmp_path / "again.jsonl"
    assert run("decide", "best-of-n", source, "--output", again, "--field", "response=text") == 0
    printed = capsys.readouterr().out
    assert "not compared" not in printed
    assert f"accuracy of the {'majority vote':<26}  66.7 %" in printed


def test_prompts_tell_questions_apart_where_there_are_no_ids(tmp_path):
    lines = [{"prompt": text, "output": "x", "confidence": 0.5, "score": -1.0} for text in ("p", "q", "p")]
    pools = read_scored(written(tmp_path, [*lines, lines[0] | {"score": 1.0}]), Reading({}), answers=True)
    assert pools.question.tolist() == [0, 1, 0, 0]
    assert pools.correct.tolist() == [False, False, False, True]
    assert pools.answers == [None] * 4
