"""The checks of recalibrated rivals: what calibrators learn from, and whose responses they are evaluated on."""

import pandas as pd
import pytest

from cocal.cli import main
from cocal.errors import ContractError
from cocal.store import write_frame
from cocal.store.contracts import PREDICTIONS
from cocal_study.checks.recalibration import check_responses, check_unseen, read_recalibrated
from cocal_study.checks.training import read_table
from cocal_study.methods.recalibration.calibrators import read_fits
from companion_run import SETTINGS
from recalibrated_study import questions_of, small_study


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    made = small_study(tmp_path_factory.mktemp("recalibrated")).write()
    assert main(made.command()) == 0
    return made


def _table(run):
    return read_table(run.folder / "rollouts", run.folder / "questions.parquet")


def _unseen(done, evaluated):
    rollouts = _table(done.run)
    tables = {"all": rollouts, "last": rollouts, "resampled": _table(done.resampled)}
    return check_unseen(read_fits(done.folder / "calibrators.json"), tables, evaluated, "calibrators.json")


def test_calibrators_of_the_companions_rollouts_pass(done):
    found = _unseen(done, questions_of(done.responses))
    read = {basis: found[basis] for basis in ("all", "last", "resampled")}
    assert [(one["first"], one["last"]) for one in read.values()] == [(1, 3), (3, 3), (1, 3)]
    assert [one["parts"]["held out"] for one in read.values()] == [41, 14, 44]
    assert found["fits"] == 2 * 5 + 2 * 2 + 2 * (2 + 3 + 1) * len(SETTINGS.seeds)


def test_an_evaluation_question_among_those_of_a_fit_is_refused(done):
    evaluated = questions_of(done.responses)
    evaluated.loc[0, "question"] = "What is 3 + 3?"
    with pytest.raises(ContractError, match=r"learn from responses to 1 question.*'q0' of sums"):
        _unseen(done, evaluated)


def _methods(table):
    """Predictions of the methods of the registry, whose raw rivals have their scores."""
    companions = [f"{name}-{target}" for name in ("cocal", "postcal") for target in ("group", "binary")]
    parts = [table[table["method"] == name] for name in ("token-probability", *companions)]
    pooled = parts[0].assign(method="self-consistency", confidence=0.5)
    return [pd.concat([*parts, pooled], ignore_index=True)]


def test_rivals_share_the_responses_of_their_methods(done):
    table = done.predictions()
    assert check_responses(table, _methods(table), "out.parquet")["rivals"] == 13
    rows = table["method"] == "length"
    other = table.assign(correct=table["correct"] ^ rows)
    with pytest.raises(ContractError, match=r"length .* is not evaluated on the responses of token-probability"):
        check_responses(other, _methods(table), "out.parquet")


def test_an_unknown_rival_is_refused(done, tmp_path):
    table = done.predictions()
    table["method"] = table["method"].replace("length", "luck")
    write_frame(tmp_path / "out.parquet", table, PREDICTIONS, {})
    with pytest.raises(ContractError, match="'luck'"):
        read_recalibrated(tmp_path / "out.parquet", "tiny")
