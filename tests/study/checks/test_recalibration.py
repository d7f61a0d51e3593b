"""The checks of recalibrated rivals: what calibrators learn from, and whose confidences they give."""

import pandas as pd
import pytest

from cocal.cli import main
from cocal.companion.supervision import question_texts
from cocal.errors import ContractError
from cocal.store import write_frame
from cocal.store.contracts import PREDICTIONS
from cocal_study.checks.recalibration import check_confidences, check_unseen, read_recalibrated
from cocal_study.checks.training import read_table
from cocal_study.methods.recalibration.fits import read_fits
from companion_run import SETTINGS
from recalibrated_study import questions_of, small_study


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    made = small_study(tmp_path_factory.mktemp("recalibrated")).write()
    assert main(made.command()) == 0
    return made


def _table(run):
    return read_table(run.folder / "rollouts", run.folder / "questions.parquet")


def _unseen(done, evaluated=None, fits=None, **tables):
    place, rollouts = done.run.folder, _table(done.run)
    return check_unseen(
        fits or read_fits(done.folder / "calibrators.json"),
        {"all": rollouts, "last": rollouts, "resampled": _table(done.resampled)} | tables,
        question_texts(place / "questions.parquet"),
        SETTINGS,
        questions_of(done.responses) if evaluated is None else evaluated,
        "calibrators.json",
    )


def test_calibrators_of_the_companions_rollouts_pass(done):
    found = _unseen(done)
    read = {basis: found[basis] for basis in ("all", "last", "resampled")}
    assert [(one["first"], one["last"]) for one in read.values()] == [(1, 3), (3, 3), (1, 3)]
    assert [one["parts"]["held out"]["responses"] for one in read.values()] == [41, 14, 44]
    assert found["fits"] == 2 * 5 + 2 * 2 + 2 * (2 + 3 + 1) * len(SETTINGS.seeds)


def test_calibrators_of_other_responses_are_refused(done):
    for basis, run in (("all", done.run), ("last", done.run), ("resampled", done.resampled)):
        table = _table(run)
        with pytest.raises(ContractError, match=f"of {basis}, the training part has .* recalibrate anew"):
            _unseen(done, **{basis: table.assign(truncated=False, finish_reason="stop")})
        with pytest.raises(ContractError, match="recalibrate anew"):
            _unseen(done, **{basis: table.assign(response_id=table["response_id"] + 1)})


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
    companions = [f"{name}-{target}" for name in ("cocal", "postcal") for target in ("group", "binary")]
    parts = [table[table["method"] == name] for name in ("token-probability", *companions)]
    pooled = parts[0].assign(method="self-consistency", confidence=0.5)
    return [pd.concat([*parts, pooled], ignore_index=True)]


def _agree(done, table, methods=None):
    fits = read_fits(done.folder / "calibrators.json")
    return check_confidences(table, fits, methods or _methods(done.predictions()), "out.parquet")


def test_confidences_that_agree_pass(done):
    assert _agree(done, done.predictions())["rivals"] == 13


@pytest.mark.parametrize(
    ("method", "column", "message"),
    [
        ("token-probability+platt-all", "confidence", "platt-all has other confidences than its calibrator gives"),
        ("semantic-entropy+isotonic-last", "confidence", "isotonic-last has other confidences"),
        ("cocal-group+platt-resampled", "confidence", "platt-resampled has other confidences"),
        ("postcal-binary+isotonic-resampled", "confidence", "isotonic-resampled has other confidences"),
        ("postcal-group", "confidence", "has other confidences than in its predictions"),
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
