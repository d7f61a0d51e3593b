"""`cocal decide stop`: responses that are stopped while they grow, below a threshold that is certified."""

from functools import partial

import numpy as np
import pytest

from cocal.metrics.choices import candidates, certified
from hand_rows import lines

EVERY = 4


def line(question, values, tokens=None, correct=None, **more):
    course = {"every": EVERY, "tokens": tokens or EVERY * len(values) + 2, "values": values}
    found = {"question_id": question, "response": "x", "confidence": 0.5, "confidence_course": course, **more}
    return found if correct is None else found | {"correct": correct}


def many(name, count, seed):
    """Two responses to each question, whose chance to be right rises with their lowest confidence; the second is always
    right and sure of nothing, and does not count."""
    draw, found = np.random.default_rng(seed), []
    for k in range(count):
        values = draw.random(1 + k % 5).round(4).tolist()
        right = bool(draw.random() < min(values) ** 0.7)
        found += [line(f"{name}-{k}", values, correct=right), line(f"{name}-{k}", [0.0], correct=True)]
    return found


@pytest.fixture
def stop(decide):
    """`cocal decide stop` about lines; its status, and the lines that it has written."""
    return partial(decide, "stop")


def test_a_certified_threshold_stops_responses_and_says_what_it_saves(tmp_path, stop, capsys):
    old, new = many("old", 600, 1), many("new", 300, 2)
    calibration = lines(tmp_path / "old.jsonl", *old)
    done, found = stop(new, "--calibration", calibration, "--risk", "0.25", "--delta", "0.2")
    assert done == 0
    lowest, theirs = (np.array([min(one["confidence_course"]["values"]) for one in given[::2]]) for given in (new, old))
    wrong = np.array([not one["correct"] for one in old[::2]])
    highest = -certified(-theirs, wrong, candidates(-lowest), max_risk=0.25, delta=0.2)
    assert 0.05 < highest < 0.6
    expected = []
    for one in new:
        places = [k for k, value in enumerate(one["confidence_course"]["values"]) if value <= highest]
        expected.append(one | {"stopped_at": EVERY * (places[0] + 1) if places else None})
    assert found == expected
    stopped = [one for one in expected if one["stopped_at"]]
    saved = sum(one["confidence_course"]["tokens"] - one["stopped_at"] for one in stopped)
    share = saved / sum(one["confidence_course"]["tokens"] for one in new)
    right = sum(one["correct"] for one in stopped)
    printed = capsys.readouterr().out
    threshold = float(np.nextafter(highest, 1))
    assert f"threshold {threshold!r}: responses are stopped" in printed
    assert f'"confidence_every": {EVERY}, "confidence_stop_below": {threshold!r}' in printed
    assert "at least 80 %, at most 25 % of stopped responses from this source would have been right" in printed
    assert f"{len(stopped):,} of 600 responses are stopped, {100 * share:.1f} % of tokens saved" in printed
    lost = 100 * right / sum(one["correct"] for one in new)
    assert (
        f"right among the stopped: {100 * right / len(stopped):.1f} %; of all right responses {lost:.1f} %" in printed
    )
    unlabelled = [{k: v for k, v in one.items() if k != "correct"} for one in new]
    _, later = stop(unlabelled, "--threshold", repr(threshold))
    assert [one["stopped_at"] for one in later] == [one["stopped_at"] for one in found]
    assert "right among" not in capsys.readouterr().out


def test_where_nothing_is_certified_nothing_is_stopped(tmp_path, stop, capsys):
    calibration = lines(tmp_path / "old.jsonl", *many("old", 12, 1))
    _, found = stop(many("new", 9, 2), "--calibration", calibration)
    assert [one["stopped_at"] for one in found] == [None] * 18
    assert "No threshold can be certified" in capsys.readouterr().out


def test_short_and_sure_responses_are_never_stopped(tmp_path, stop):
    new = [line("a", [], tokens=3), line("b", [1.0, 1.0]), line("c", [0.3, 0.1])]
    old = [line(f"o{k}", [0.3, 0.05], correct=False) for k in range(300)]
    _, found = stop(new, "--calibration", lines(tmp_path / "old.jsonl", *old))
    assert [one["stopped_at"] for one in found] == [None, None, 8]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"confidence_course": None}, "is no course of `cocal score --every`"),
        ({"confidence_course": {"every": 4, "tokens": 9, "values": [0.1, 1.5]}}, "is no course"),
        ({"confidence_course": {"every": 4, "tokens": 9, "values": [0.1, True]}}, "is no course"),
        ({"confidence_course": {"every": 0, "tokens": 9, "values": [0.1]}}, "is no course"),
        ({"confidence_course": {"every": 8, "tokens": 9, "values": [0.1]}}, "after every 8 tokens, but after every 4"),
        ({"stopped_at": 1}, "there is a field 'stopped_at' already"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, stop, capsys, change, message):
    assert stop([line("a", [0.5]), line("b", [0.5, 0.4]) | change], "--threshold", "0.5")[0] == 2
    error = capsys.readouterr().err
    assert f"{tmp_path / 'scored.jsonl'}: line 2: " in error
    assert message in error


def test_lines_without_courses_and_files_that_do_not_fit_are_refused(tmp_path, stop, capsys):
    plain = {k: v for k, v in line("a", [0.5]).items() if k != "confidence_course"}
    assert stop([plain], "--threshold", "0.5")[0] == 2
    assert (
        "line 1: there is no field 'confidence_course'; add it by `cocal score --every 16`" in capsys.readouterr().err
    )
    new, old = many("new", 30, 2), many("old", 30, 1)
    other = [one | {"confidence_course": one["confidence_course"] | {"every": 2}} for one in old]
    for given, message in (
        ([{k: v for k, v in one.items() if k != "correct"} for one in old], "the lines have no labels"),
        (old + new[:2], "1 of its questions are also in"),
        (other, "confidences after every 2 tokens, but after every 4 in"),
    ):
        assert stop(new, "--calibration", lines(tmp_path / "old.jsonl", *given))[0] == 2
        assert message in capsys.readouterr().err
    assert stop(new, "--threshold", "0.5", "--risk", "0.1")[0] == 2
    assert "leave them out, or --threshold" in capsys.readouterr().err
