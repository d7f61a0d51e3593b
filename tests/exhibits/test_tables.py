"""Tables of ECE and AUROC: recalibrated rivals, pooled states, and before against after the response."""

from pathlib import Path

import pytest

from cocal.config import load_study
from cocal.exhibits import pre_generation, recalibrated, token_aggregation
from cocal.exhibits.typesetting.latex import latex
from cocal.study import rivals
from cocal.study.rivals import CALIBRATIONS, RIVALS, named
from coded_inputs import DOMAINS, coded_cube
from exhibits_by_name import exhibits_by_name
from sample_tables import aggregation_cubes, aggregation_layout, pre_generation_layout

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


def test_undefined_values_of_an_aggregation_are_explained():
    layout, cubes = aggregation_layout(), aggregation_cubes()
    numbers = token_aggregation.prepare(layout, cubes)
    numbers.loc[[0, 1, 2, 3, 4, 5], "value"] = [0.1, float("nan"), 0.3, 0.2, 0.2, 0.4]  # of the first backbone
    text = latex(token_aggregation.grid(numbers, layout, metrics=cubes))
    assert r"Last token & \textbf{0.100} & -- &" in text
    assert r"Last + mean & 0.200 & \textbf{0.400} &" in text
    assert "-- marks an undefined value" in text


def test_one_domain_alone_before_and_after_generation():
    layout = pre_generation_layout(domains=[{"name": "macro-factual", "label": "Factual QA"}])
    cube = coded_cube("tiny-a", ["cocal-group", "cocal-pre-generation"])
    text = latex(pre_generation.grid(pre_generation.prepare(layout, cube), layout, metrics=cube))
    assert text.count(r"\multicolumn{2}{c}") == 1
    assert "and the evaluation sets of Factual QA." in text
