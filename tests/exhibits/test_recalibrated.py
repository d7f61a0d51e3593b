"""The table of recalibrated rivals, and the checks of their files."""

from pathlib import Path

import pandas as pd
import pytest

from cocal.checks.recalibration import check_confidences, check_unseen, read_recalibrated
from cocal.checks.tables import read_table
from cocal.cli import main
from cocal.companion.supervision import question_texts
from cocal.config import load_study
from cocal.errors import ContractError
from cocal.exhibits import recalibrated
from cocal.exhibits.typesetting.latex import latex
from cocal.methods.recalibration.fits import read_fits
from cocal.store import write_frame
from cocal.store.contracts import PREDICTIONS
from cocal.study import rivals
from cocal.study.rivals import CALIBRATIONS, RIVALS, named
from coded_inputs import DOMAINS, coded_cube
from companion_run import SETTINGS
from exhibits_by_name import exhibits_by_name
from recalibrated_study import questions_of, small_study

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def study():
    return load_study(ROOT / "config/config.yaml")


@pytest.fixture(scope="module")
def layout(study):
    """That of the embedded study, with the names of the sample."""
    found = exhibits_by_name(study)["recalibrated"].layout
    return found.model_copy(update={"backbone": "tiny-a", "step": 60, "domains": DOMAINS})


@pytest.fixture(scope="module")
def cube(layout):
    methods = [named(rival, calibration) for rival in RIVALS for calibration in CALIBRATIONS]
    return coded_cube("tiny-a", methods)


# The table


def test_length_alone_has_no_calibration_error_as_it_is(layout, cube):
    numbers = recalibrated.prepare(layout, cube)
    undefined = numbers[numbers["value"].isna()]
    assert set(undefined["rival"]) == {"length"}
    assert set(undefined["calibration"]) == {"raw"}
    assert set(undefined["metric"]) == {"ece"}
    assert undefined[["lower", "upper"]].isna().all(axis=None)
    assert numbers[(numbers["rival"] == "length") & (numbers["metric"] == "auroc")]["value"].notna().all()
    text = latex(recalibrated.grid(numbers, layout, metrics=cube))
    assert r"Length (shorter is surer) & --" in text
    assert text.count(r"\multicolumn{5}{l}") == len(CALIBRATIONS)


def test_a_study_has_the_rivals_of_its_methods(study):
    def names(changed):
        return [one.name for one in rivals.all_rivals(changed)]

    def without(*methods):
        left = tuple(name for name in study.estimators.methods if name not in methods)
        return study.model_copy(update={"estimators": study.estimators.model_copy(update={"methods": left})})

    assert names(study) == list(RIVALS)
    assert {"self-consistency-loo", "semantic-entropy"}.isdisjoint(names(without("self-consistency")))
    assert rivals.recalibrated_algorithms(without("rlcr")) == ["grpo", "dcpo"]
    plain = without("cocal-group", "cocal-binary")
    assert not rivals.reads_states(plain, "grpo")
    assert rivals.reader_folders(plain) == {}
    nothing = without(*(rival.method for rival in RIVALS.values()))
    assert "recalibrated" not in exhibits_by_name(nothing)


def test_the_one_layer_companion_differs_in_its_depth_alone(study):
    shallow, own = rivals.one_layer_companion(study), study.companion
    assert (shallow.widths, shallow.dropout) == (own.widths[:1], own.dropout[:1])
    assert shallow.model_copy(update={"widths": own.widths, "dropout": own.dropout}) == own


# The checks


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
