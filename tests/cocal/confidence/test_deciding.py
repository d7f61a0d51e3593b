"""`cocal decide`: responses chosen from scored lines or stopped, questions answered or not, wrong lines named."""

import re
from functools import partial

import numpy as np
import pytest

from cocal.metrics.choices import candidates, certified
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
    assert "confidences: 1 of 9 are null" in printed
    assert "the best of n decides 3 questions" in printed
    assert "3 of them get another answer than that of the majority vote" in printed  # c is a tie: the first answer
    assert "2 of them get another answer than that of the first response" in printed
    for rule, accuracy in (("best of n", "33.3"), ("majority vote", "66.7"), ("first response", "33.3")):
        assert f"accuracy of the {rule:<26} {accuracy:>5} %\n" in printed, "three questions give no interval"
    assert (
        decide("best-of-n", [one | {"question_id": f"{one['question_id']}{k}"} for k in range(4) for one in POOL])[0]
        == 0
    )
    assert "accuracy of the best of n                   33.3 %  (" in capsys.readouterr().out


def test_a_vote_adds_the_confidences_of_equivalent_answers(decide, capsys):
    done, chosen = decide("vote", POOL, "--resamples", "20")
    assert done == 0
    assert [one["response"] for one in chosen] == [POOL[0]["response"], POOL[2]["response"], POOL[8]["response"]]
    assert "accuracy of the confidence-weighted vote    66.7 %" in capsys.readouterr().out


@pytest.mark.parametrize("field", ["answer", "final"])
def test_answers_may_stand_in_a_field_and_be_factual(decide, capsys, field):
    given = [line("a", 0.4, "x", **{field: "The Moon"}), line("a", 0.5, "x", **{field: "sun"})]
    given += [line("a", 0.3, "x", **{field: "moon"}), line("b", 0.4, "x", **{field: None})]
    given += [line("b", None, "x", **{field: 7})]
    done, chosen = decide("vote", given, "--domain", "factual", *(["--answer", field] if field != "answer" else []))
    assert done == 0
    assert [one[field] for one in chosen] == ["The Moon", 7]
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
    assert "probability of at least 90 %, at most 10 % of answered questions from this source are wrong, if" in printed
    wrong = np.mean([not one["correct"] for one in expected if one["decision"] == "answer"])
    assert f"wrong among the answered: {100 * wrong:.1f} %" in printed

    assert "by more than chance" not in printed
    spoilt = [one | {"correct": one["correct"] and place % 3 > 0} for place, one in enumerate(new)]
    assert decide("abstain", spoilt, "--calibration", calibration)[0] == 0
    assert "That is more than 10 %, by more than chance: these questions are hardly" in capsys.readouterr().out

    unlabelled = [{k: v for k, v in one.items() if k != "correct"} for one in new]
    _, later = decide("abstain", unlabelled, "--threshold", repr(threshold))
    assert [one["decision"] for one in later] == [one["decision"] for one in expected]
    assert "wrong among" not in capsys.readouterr().out

    renamed = [[one | {"id": one.pop("question_id")} for one in given] for given in (old, new)]
    flags = ["--calibration", lines(calibration, *renamed[0])]
    flags += ["--field", "question_id=id", "--field", "correct=correct"]
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
    (least,) = re.findall(r"the lowest risk that it certifies is (\d+) %", printed)
    for percent, answers in ((int(least), True), (int(least) - 1, False)):
        _, chosen = decide("abstain", new, "--calibration", calibration, "--max-risk", str(percent / 100))
        assert any(one["decision"] == "answer" for one in chosen) == answers


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
        (
            [one | {"confidence_learnt": True} for one in old],
            "800 of its 800 prompts are among those that the companion",
        ),
        ([one | {"confidence_by": "12ab group"} for one in old], "its confidences are by another companion, target or"),
    ):
        new = [one | {"confidence_by": "12ab", "confidence_learnt": True} for one in new]
        assert decide("abstain", new, "--calibration", lines(calibration, *given)) == (2, None)
        assert f"{calibration}: {message}" in capsys.readouterr().err
    assert decide("vote", [{"question_id": "a", "response": "nothing boxed", "confidence": 0.5}])[0] == 2
    assert "nothing to vote on, since no response has an answer (the last box of each" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("theirs", "ours", "message"),
    [
        (
            [2, 2, 1, 2],
            [2],
            "old.jsonl: 1 of its 4 questions have another number of responses than 2, the usual one in ",
        ),
        ([4, 4, 4], [4, 1, 1, 3], "scored.jsonl: 3 of its 4 questions have another number of responses than 4"),
    ],
)
def test_questions_with_another_number_of_responses_are_counted_and_one_is_named(
    tmp_path, decide, capsys, theirs, ours, message
):
    old, new = (
        [line(f"{name}-{k}", place / 10, "1", True) for k, size in enumerate(sizes) for place in range(size)]
        for name, sizes in (("old", theirs), ("new", ours))
    )
    assert decide("abstain", new, "--calibration", lines(tmp_path / "old.jsonl", *old)) == (2, None)
    error = capsys.readouterr().err
    assert message in error
    assert ("such as 'old-2' with 1;" if len(ours) == 1 else "such as 'new-1' with 1;") in error


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


EVERY = 4


def grown(question, values, tokens=None, correct=None, **more):
    trajectory = {"every": EVERY, "tokens": tokens or EVERY * len(values) + 2, "values": values}
    found = {"question_id": question, "response": "x", "confidence": 0.5, "confidence_trajectory": trajectory, **more}
    return found if correct is None else found | {"correct": correct}


def several(name, count, seed):
    """Two responses to each question, whose chance to be right rises with their lowest confidence; the second is always
    right and sure of nothing, and does not count."""
    draw, found = np.random.default_rng(seed), []
    for k in range(count):
        values = draw.random(1 + k % 5).round(4).tolist()
        right = bool(draw.random() < min(values) ** 0.7)
        found += [grown(f"{name}-{k}", values, correct=right), grown(f"{name}-{k}", [0.0], correct=True)]
    return found


@pytest.fixture
def stop(decide):
    return partial(decide, "stop")


def test_a_certified_threshold_stops_responses_and_says_what_it_saves(tmp_path, stop, capsys):
    old, new = several("old", 600, 1), several("new", 300, 2)
    calibration = lines(tmp_path / "old.jsonl", *old)
    done, found = stop(new, "--calibration", calibration, "--risk", "0.25", "--delta", "0.2")
    assert done == 0
    lowest, theirs = (
        np.array([min(one["confidence_trajectory"]["values"]) for one in given[::2]]) for given in (new, old)
    )
    wrong = np.array([not one["correct"] for one in old[::2]])
    highest = -certified(-theirs, wrong, candidates(-lowest), max_risk=0.25, delta=0.2)
    assert 0.05 < highest < 0.6
    expected = []
    for one in new:
        places = [k for k, value in enumerate(one["confidence_trajectory"]["values"]) if value <= highest]
        expected.append(one | {"stopped_at": EVERY * (places[0] + 1) if places else None})
    assert found == expected
    stopped = [one for one in expected if one["stopped_at"]]
    saved = sum(one["confidence_trajectory"]["tokens"] - one["stopped_at"] for one in stopped)
    share = saved / sum(one["confidence_trajectory"]["tokens"] for one in new)
    right = sum(one["correct"] for one in stopped)
    printed = capsys.readouterr().out
    threshold = float(np.nextafter(highest, 1))
    assert f"threshold {threshold!r}: responses are stopped" in printed
    assert f'"confidence_every": {EVERY}, "confidence_stop_below": {threshold!r}' in printed
    assert "at least 80 %, at most 25 % of stopped responses from this source would have been right" in printed
    assert f"{len(stopped):,} of 600 responses are stopped, {100 * share:.1f} % of tokens saved" in printed
    lost = 100 * right / sum(one["correct"] for one in new)
    share = 100 * right / len(stopped)
    assert f"right among the stopped: {share:.1f} %; of all right responses {lost:.1f} %" in printed
    unlabelled = [{k: v for k, v in one.items() if k != "correct"} for one in new]
    _, later = stop(unlabelled, "--threshold", repr(threshold))
    assert [one["stopped_at"] for one in later] == [one["stopped_at"] for one in found]
    assert "right among" not in capsys.readouterr().out


def test_where_nothing_is_certified_nothing_is_stopped(tmp_path, stop, capsys):
    calibration = lines(tmp_path / "old.jsonl", *several("old", 12, 1))
    _, found = stop(several("new", 9, 2), "--calibration", calibration)
    assert [one["stopped_at"] for one in found] == [None] * 18
    assert "No threshold can be certified" in capsys.readouterr().out


def test_short_and_sure_responses_are_never_stopped(tmp_path, stop):
    new = [grown("a", [], tokens=3), grown("b", [1.0, 1.0]), grown("c", [0.3, 0.1])]
    old = [grown(f"o{k}", [0.3, 0.05], correct=False) for k in range(300)]
    _, found = stop(new, "--calibration", lines(tmp_path / "old.jsonl", *old))
    assert [one["stopped_at"] for one in found] == [None, None, 8]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"confidence_trajectory": None}, "field 'confidence_trajectory' is not as `cocal score` writes it"),
        ({"confidence_trajectory": {"every": 4, "tokens": 9, "values": [0.1, 1.5]}}, "is not as"),
        ({"confidence_trajectory": {"every": 4, "tokens": 9, "values": [0.1, True]}}, "is not as"),
        ({"confidence_trajectory": {"every": 0, "tokens": 9, "values": [0.1]}}, "is not as"),
        ({"confidence_trajectory": {"every": 4, "tokens": 7, "values": [0.5, 0.4]}}, "it outlasts its tokens"),
        (
            {"confidence_trajectory": {"every": 8, "tokens": 9, "values": [0.1]}},
            "after every 8 tokens, but after every 4",
        ),
        ({"stopped_at": 1}, "there is a field 'stopped_at' already"),
    ],
)
def test_a_trajectory_of_another_form_is_named(tmp_path, stop, capsys, change, message):
    assert stop([grown("a", [0.5]), grown("b", [0.5, 0.4]) | change], "--threshold", "0.5")[0] == 2
    error = capsys.readouterr().err
    assert f"{tmp_path / 'scored.jsonl'}: line 2: " in error
    assert message in error


def test_lines_without_trajectories_and_files_that_do_not_fit_are_refused(tmp_path, stop, capsys):
    plain = {k: v for k, v in grown("a", [0.5]).items() if k != "confidence_trajectory"}
    assert stop([plain], "--threshold", "0.5")[0] == 2
    assert "line 1: there is no field 'confidence_trajectory'; add it by `cocal score" in capsys.readouterr().err
    new, old = several("new", 30, 2), several("old", 30, 1)
    other = [one | {"confidence_trajectory": one["confidence_trajectory"] | {"every": 2}} for one in old]
    for given, message in (
        (old + new[:2], "1 of its questions are also in"),
        (other, "confidences after every 2 tokens, but after every 4 in"),
    ):
        assert stop(new, "--calibration", lines(tmp_path / "old.jsonl", *given))[0] == 2
        assert message in capsys.readouterr().err
    assert stop(new, "--threshold", "0.5", "--risk", "0.1")[0] == 2
    assert "leave them out, or --threshold" in capsys.readouterr().err
