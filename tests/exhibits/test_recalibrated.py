"""The table of recalibrated rivals."""

from pathlib import Path

import pytest

from cocal.config import load_study
from cocal.exhibits import recalibrated
from cocal.exhibits.typesetting.latex import latex
from cocal.study import rivals
from cocal.study.rivals import CALIBRATIONS, RIVALS, named
from coded_inputs import DOMAINS, coded_cube
from exhibits_by_name import exhibits_by_name

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
