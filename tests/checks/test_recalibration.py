"""The checks of recalibrated rivals: what calibrators learn from, and whose confidences they give."""

import pandas as pd
import pytest

from cocal.checks.recalibration import check_confidences, check_unseen, read_recalibrated
from cocal.checks.training import read_table
from cocal.cli import main
from cocal.companion.supervision import question_texts
from cocal.errors import ContractError
from cocal.methods.recalibration.fits import read_fits
from cocal.store import write_frame
from cocal.store.contracts import PREDICTIONS
from companion_run import SETTINGS
from recalibrated_study import questions_of, small_study


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    made = small_study(tmp_path_factory.mktemp("recalibrated")).write()
    assert main(made.command()) == 0
    return made


def _unseen(done, rollouts=None, evaluated=None, fits=None):
    place = done.run.folder
    return check_unseen(
        fits or read_fits(done.folder / "calibrators.json"),
        read_table(place / "rollouts", place / "questions.parquet") if rollouts is None else rollouts,
        question_texts(place / "questions.parquet"),
        SETTINGS,
        questions_of(done.responses) if evaluated is None else evaluated,
        "calibrators.json",
    )


def test_calibrators_of_the_companions_rollouts_pass(done):
    found = _unseen(done)
    assert found["training"]["responses"] > found["held_out"]["responses"] > 0
    assert found["scores"] == 5 + 2 + 2 * 2 * len(SETTINGS.seeds)


def test_calibrators_of_other_responses_are_refused(done):
    place = done.run.folder
    rollouts = read_table(place / "rollouts", place / "questions.parquet")
    other = rollouts.assign(truncated=False, finish_reason="stop")
    with pytest.raises(ContractError, match="training part has"):
        _unseen(done, rollouts=other)
    moved = rollouts.assign(response_id=rollouts["response_id"] + 1)
    with pytest.raises(ContractError, match="recalibrate anew"):
        _unseen(done, rollouts=moved)


def test_an_evaluation_question_among_those_of_a_fit_is_refused(done):
    evaluated = questions_of(done.responses)
    evaluated.loc[0, "question"] = "What is 3 + 3?"
    with pytest.raises(ContractError, match=r"learn from responses to 1 question.*'q0' of sums"):
        _unseen(done, evaluated=evaluated)


def test_a_calibrator_of_a_learnt_score_may_not_learn_where_the_score_did(done):
    fits = read_fits(done.folder / "calibrators.json")
    wrong = [fit.model_copy(update={"part": "training"}) for fit in fits.fits]
    with pytest.raises(
        ContractError, match=r"one-layer-group \(seed 42\) learnt from 41 responses of the training part"
    ):
        _unseen(done, fits=fits.model_copy(update={"fits": tuple(wrong)}))


def _methods(table):
    """Predictions of the methods of the registry, whose raw rivals have their scores."""
    parts = [table[table["method"] == name] for name in ("token-probability", "cocal-group", "cocal-binary")]
    pooled = parts[0].assign(method="self-consistency", confidence=0.5)
    return [pd.concat([*parts, pooled], ignore_index=True)]


def _agree(done, table, methods=None):
    fits = read_fits(done.folder / "calibrators.json")
    return check_confidences(table, fits, methods or _methods(done.predictions()), "out.parquet")


def test_confidences_that_agree_pass(done):
    assert _agree(done, done.predictions())["rivals"] == 11


@pytest.mark.parametrize(
    ("method", "column", "message"),
    [
        ("token-probability+platt", "confidence", "platt has other confidences than its calibrator gives"),
        ("semantic-entropy+isotonic", "confidence", "isotonic has other confidences"),
        ("cocal-binary", "confidence", "has other confidences than in its predictions"),
        ("length", "correct", "is not evaluated on the responses of token-probability"),
    ],
)
def test_confidences_that_disagree_are_refused(done, method, column, message):
    table = done.predictions()
    rows = table["method"] == method
    table[column] = table[column].where(~rows, 1 - table[column].astype(float))
    with pytest.raises(ContractError, match=message):
        _agree(done, table.astype({"correct": bool}))


def test_an_unknown_rival_is_refused(done, tmp_path):
    table = done.predictions()
    table["method"] = table["method"].replace("length", "luck")
    write_frame(tmp_path / "out.parquet", table, PREDICTIONS, {})
    with pytest.raises(ContractError, match="'luck'"):
        read_recalibrated(tmp_path / "out.parquet", "tiny")
