"""`cocal evaluate`: the numbers of a report, and the lines that it refuses."""

import re

import numpy as np
import pandas as pd
import pytest

from cocal import Companion
from cocal.confidence import TOKENS
from cocal.confidence.evaluation import OWN, draw, read
from cocal.confidence.evaluation import report as write
from cocal.fitting.baselines import FLAG, agreement, baselines, recalibrated
from cocal.fitting.quality import compared, measured
from cocal.fitting.recipes import folds_of
from cocal.metrics.calibration import evaluate
from cocal.metrics.settings import MetricSettings
from cocal.rollouts.format import Reading
from hand_rows import lines
from own_rollouts import run, tables


@pytest.fixture
def report(tmp_path):
    """Evaluates lines; returns the command's status."""

    def start(*rows, flags=()):
        source = lines(tmp_path / "scored.jsonl", *rows)
        return run("evaluate", source, "--output", tmp_path / "report", "--resamples", "50", "--overwrite", *flags)

    return start


def test_a_report_has_the_numbers_of_its_lines(tmp_path, report, capsys):
    draw = np.random.default_rng(3)
    confidence = draw.random(80)
    correct = draw.random(80) < confidence
    rows = zip(np.arange(80) // 4, confidence.tolist(), correct.tolist(), strict=True)
    assert report(*({"question_id": q.item(), "confidence": c, "acc": y} for q, c, y in rows)) == 0
    printed = capsys.readouterr().out
    expected = evaluate(confidence, np.ones(80, dtype=bool), correct)
    assert f"{expected['ece']:.3f}" in printed
    page = (tmp_path / "report/index.html").read_text(encoding="utf-8")
    assert f">{expected['auroc']:.3f}<" in page
    assert "data:image/png;base64," in page
    numbers = pd.read_csv(tmp_path / "report/numbers.csv").set_index("metric")
    assert numbers.at["ece", "value"] == pytest.approx(expected["ece"])
    assert (tmp_path / "report/quality.pdf").read_bytes().startswith(b"%PDF")


def test_confidences_the_wrong_way_round_are_told(caplog, report):
    draw = np.random.default_rng(8)
    confidence = draw.random(90)
    correct = draw.random(90) < confidence
    for given, said in ((confidence, False), (1 - confidence, True)):
        rows = zip(np.arange(90) // 3, given.tolist(), correct.tolist(), strict=True)
        assert report(*({"question_id": q.item(), "confidence": c, "correct": y} for q, c, y in rows)) == 0
        assert ("wrong responses have the higher confidences" in caplog.text) == said


def test_intervals_resample_questions():
    """Eight responses to one question are not eight questions: the interval is wider than that of single responses."""
    draw = np.random.default_rng(0)
    skill = draw.random(80)
    correct, confidence = (draw.random((80, 8)) < skill[:, None]).ravel(), skill.repeat(8)
    grouped, single = (
        measured([f"q{k // size}" for k in range(640)], confidence, correct, MetricSettings(resamples=300))
        for size in (8, 1)
    )
    widths = [(one["upper"] - one["lower"])[one["metric"] == "accuracy"].item() for one in (grouped, single)]
    assert widths[0] > 1.5 * widths[1]
    np.testing.assert_array_equal(grouped["value"], single["value"])


def test_a_report_shows_what_others_reach_by_the_same_labels(tmp_path, capsys, report, own):
    """What the lines do not say of every response is left out; a second computation by `baselines` themselves."""
    draw = np.random.default_rng(6)
    correct, fold = draw.random(60) < 0.7, folds_of([f"{k // 3}?" for k in range(60)], 42)
    length, confidence = draw.integers(1, 30, 60) + 9 * ~correct, 0.2 + 0.6 * draw.random(60)
    cut, tokens = draw.random(60) < 0.3, draw.random((60, 3))
    answers = [str(one) for one in draw.integers(0, 3, 60)]
    agreed = agreement([k // 3 for k in range(60)], answers)
    rows = [
        {"prompt": f"{k // 3}?", "confidence": float(c), "acc": bool(y)}
        for k, (c, y) in enumerate(zip(confidence, correct, strict=True))
    ]
    texts = [
        row | {"response": f"\\boxed{{{one}}}".ljust(size + 9)}
        for row, one, size in zip(rows, answers, length.tolist(), strict=True)
    ]
    scored = [
        row | {"confidence_response": {"tokens": size, "truncated": bool(c), **dict(zip(TOKENS, one, strict=True))}}
        for row, size, c, one in zip(texts, length.tolist(), cut, tokens.tolist(), strict=True)
    ]
    card = {one.metric: one.value for one in Companion.from_pretrained(own.companion).config.held_out.metrics}
    capsys.readouterr()  # what the fit has said
    for given, known, size in (
        (rows, None, None),
        (texts, (None, None), length + 9),
        (scored, (cut, tokens), length),
        ([*scored[:-1], texts[-1]], (None, None), length + 9),
        ([*scored, texts[-1] | {"confidence": None, "prompt": "?", "response": ""}], (cut, tokens), length),
        ([row | {"confidence_response": "a field of another"} for row in texts], (None, None), length + 9),
    ):
        assert report(*given, flags=["--companion", own.companion]) == 0
        table, *ended = tables(capsys.readouterr().out)
        expected = {"confidence": compared(confidence, correct)["brier"], "constant": correct.var()}
        expected["on the companion's card"] = card["brier"]
        others = {}
        if known is not None:
            logit = np.log(confidence / (1 - confidence))[:, None]
            others = {OWN: recalibrated(logit, correct, fold)}
            others |= baselines(correct, fold, known[0], size + 1, known[1], agreed)
        expected |= {name: compared(one, correct)["brier"] for name, one in others.items()}
        assert {name: value for name, value in table["Brier score"].items() if name != "its 95 % interval"} == {
            name: f"{value:.3f}" for name, value in expected.items()
        }
        assert [part["Brier score"] for part in ended] == [
            {"confidence": f"{compared(confidence[~cut], correct[~cut])['brier']:.3f}"}
            | {
                name: f"{compared(one[~cut], correct[~cut])['brier']:.3f}"
                for name, one in others.items()
                if name != FLAG
            }
            | {"constant": f"{correct[~cut].var():.3f}"}
            | {"its 95 % interval": part["Brier score"]["its 95 % interval"]}
            for part in ended
        ]
        assert len(ended) == (known is not None and known[0] is not None)
        page = (tmp_path / "report/index.html").read_text(encoding="utf-8")
        assert all(f"| {name}" in page.replace("&#39;", "'") for name in expected)


def test_other_confidences_stand_beside_it_with_paired_intervals(capsys, report):
    """One that is better by construction, one that is not known of two responses, which then have no part. The interval
    is that of the mean difference over resampled questions, by hand."""
    draw = np.random.default_rng(12)
    skill = draw.uniform(0.1, 0.9, 96)
    correct = draw.random(96) < skill
    confidence, near = np.full(96, 0.55), 0.5 + 0.4 * (skill - 0.5)
    rows = [
        {"question_id": k // 2, "confidence": c, "near": n, "far": 1 - n, "correct": bool(y)}
        for k, (c, n, y) in enumerate(zip(confidence, near, correct, strict=True))
    ]
    rows[0]["far"] = rows[95]["far"] = None
    assert report(*rows, flags=["--beside", "near", "--beside", "far", "--resamples", "400"]) == 0
    printed = capsys.readouterr().out
    (table,) = tables(printed)
    kept = slice(1, 95)
    for name, other in (("confidence", confidence), ("near", near), ("far", 1 - near)):
        assert table["Brier score"][name] == f"{compared(other[kept], correct[kept])['brier']:.3f}"
    excess = (np.square(near - correct) - np.square(confidence - correct))[kept]
    sums, sizes = (np.bincount(np.arange(96)[kept] // 2, weights) for weights in (excess, np.ones(94)))
    picked = draw.integers(0, 48, (4000, 48))
    low, high = np.quantile(sums[picked].sum(axis=1) / sizes[picked].sum(axis=1), (0.025, 0.975))
    found = re.search(r"Brier score of near less that of confidence: (\S+) \((\S+) to (\S+)\)\.", printed)
    value, lower, upper = (float(number) for number in found.groups())
    assert value == pytest.approx(excess.mean(), abs=5e-5)
    assert (lower, upper) == pytest.approx((low, high), abs=0.2 * (high - low))
    assert "near after recalibration" not in printed  # without texts of responses, nothing is fitted
    texts = [row | {"response": "a" * (3 + k % 5)} for k, row in enumerate(rows)]
    assert report(*texts, flags=["--beside", "near"]) == 0
    logit = np.log(near / (1 - near))[:, None]
    fitted = recalibrated(logit, correct, folds_of([str(k // 2) for k in range(96)], 42))
    (table,) = tables(capsys.readouterr().out)
    assert table["Brier score"]["near after recalibration"] == f"{compared(fitted, correct)['brier']:.3f}"
    assert "2 responses lack one of these confidences and have no part." in printed
    assert report(*rows, flags=["--name", "near", "--beside", "confidence"]) == 0
    (table,) = tables(capsys.readouterr().out)
    assert table["Brier score"]["near"] == f"{compared(near, correct)['brier']:.3f}"
    assert table["Brier score"]["confidence"] == f"{compared(confidence, correct)['brier']:.3f}"
    assert report(*rows, flags=["--name", "near", "--beside", "near"]) == 2
    assert "--beside near: names the confidence itself" in capsys.readouterr().err
    assert report(*rows, flags=["--beside", "constant"]) == 2
    assert "--beside constant: names" in capsys.readouterr().err
    assert report(*rows, flags=["--beside", "nearer"]) == 2
    assert "line 1: there is no field 'nearer'; add it by `cocal score`, or name another (--beside)" in (
        capsys.readouterr().err
    )
    assert report(*[row | {"far": None} for row in rows], flags=["--beside", "far"]) == 2
    assert "no response has a valid confidence in 'confidence' and in 'far'" in capsys.readouterr().err


def test_the_card_of_another_companion_is_refused(capsys, caplog, report, own):
    own_one = Companion.from_pretrained(own.companion).identity()[:12]
    for by, status in ((own_one, 0), (f"{own_one} binary 42", 0), (None, 0), ("d58069578e63", 2)):
        rows = [{"prompt": f"{k}?", "confidence": 0.4, "confidence_by": by, "correct": k > 3} for k in range(12)]
        caplog.clear()
        assert report(*rows, flags=["--companion", own.companion]) == status
        assert ("no line says which companion gave its confidence" in caplog.text) == (by is None)
    said = (
        f"the confidences are by the companion d58069578e63, and {own.companion} is {own_one}; give the one that gave"
    )
    assert said in capsys.readouterr().err


def test_labels_that_contradict_each_other_are_counted(capsys, report):
    rows = [{"prompt": f"{k}?", "confidence": 0.4, "correct": k > 3, "reward": int(k > 5)} for k in range(12)]
    assert report(*rows) == 0
    assert "in 2 of 12 rows 'reward' contradicts 'correct', which is read" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"correct": True}, "there is no field 'confidence'; add it by `cocal score`"),
        ({"confidence": 1.2, "correct": True}, "field 'confidence' is 1.2, not a confidence from 0 to 1"),
        ({"confidence": 0.2}, "1 of 3 responses have no label; give `correct` or a reward"),
        ({"confidence": "high", "correct": True}, "field 'confidence' is not a finite number: 'high'"),
    ],
)
def test_a_line_that_cannot_be_evaluated_is_named(tmp_path, capsys, report, row, message):
    assert report({"confidence": 0.5, "correct": False}, row, {"confidence": 0.7, "correct": True}) == 2
    assert f"{tmp_path / 'scored.jsonl'}: line 2: {message}" in capsys.readouterr().err


@pytest.mark.parametrize("bound", ["1", "-0.5"])
def test_a_bound_that_makes_all_labels_the_same_is_refused(capsys, report, bound):
    rows = [{"confidence": 0.5, "reward": label} for label in (0, 1)]
    assert report(*rows, flags=["--correct-above", bound]) == 2
    said = f"--correct-above {bound} makes all responses the same: the rewards are from 0 to 1"
    assert said in capsys.readouterr().err


def test_invalid_confidences_count_for_the_accuracy_alone(tmp_path, capsys, report):
    assert report(*[{"confidence": 0.5, "correct": True}, {"confidence": None, "correct": False}] * 20) == 0
    numbers = pd.read_csv(tmp_path / "report/numbers.csv").set_index("metric")["value"]
    assert (numbers["accuracy"], numbers["ece"]) == (0.5, 0.5)
    assert np.isnan(numbers["auroc"])
    assert "20 of them have no valid confidence" in (tmp_path / "report/index.html").read_text(encoding="utf-8")
    assert "the lines name no question" in capsys.readouterr().out
    few = [{"question_id": k, "confidence": 0.3 if k < 9 else None, "correct": k % 3 > 0} for k in range(30)]
    assert report(*few) == 0
    numbers = pd.read_csv(tmp_path / "report/numbers.csv").set_index("metric")["lower"]
    assert np.isfinite(numbers["accuracy"])
    assert np.isnan(numbers["brier"]), "of nine questions"
    page = tmp_path / "report/index.html"
    page.write_text("<p>mine</p>")
    capsys.readouterr()
    assert report(*few) == 2
    assert "report: is nothing that `cocal evaluate` makes" in capsys.readouterr().err
    assert page.read_text() == "<p>mine</p>"
    page.unlink()
    assert report({"confidence": None, "correct": True}) == 2
    assert "no response has a valid confidence in 'confidence'; there is nothing to evaluate" in capsys.readouterr().err


def test_the_small_print_of_a_report_counts_what_is_drawn(tmp_path):
    """A question whose responses have no valid confidence is in no curve."""
    rows = [{"question_id": k // 3, "confidence": k / 60, "correct": k % 4 > 0} for k in range(48)]
    for row in rows[:6] + rows[9:10]:
        row["confidence"] = None
    scored = read(lines(tmp_path / "in.jsonl", *rows), Reading())
    numbers, _ = write(scored, tmp_path / "report")
    figure = draw(scored, numbers, pd.read_csv(tmp_path / "report/reliability.csv"))
    said = [text.get_text() for text in figure.texts]
    assert said == ["in.jsonl: 41 responses to 14 questions"]
    page = (tmp_path / "report/index.html").read_text()
    assert "48" in page
    assert "7 of them have no valid confidence" in page
