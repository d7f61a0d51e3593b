"""Tables of ECE and AUROC: recalibrated baselines, pooled states, and before against after the response."""

import re

import pytest

from cocal.metrics.calibration import METRICS
from cocal.metrics.scores import WITHIN
from cocal_study.exhibits import recalibrated
from cocal_study.exhibits.typesetting.latex import latex
from cocal_study.planning import baselines
from cocal_study.planning.baselines import BASELINES, CALIBRATIONS, named
from coded_inputs import DOMAINS, coded_cube, coded_fits
from exhibits_by_name import exhibits_by_name
from planned_jobs import study_of


@pytest.fixture(scope="module")
def study():
    return study_of("config")


@pytest.fixture(scope="module")
def layout(study):
    """That of the embedded study, with the names of the sample."""
    found = exhibits_by_name(study)["recalibrated"].layout
    return found.model_copy(update={"backbone": "tiny-a", "step": 60, "domains": DOMAINS})


@pytest.fixture(scope="module")
def cube(layout):
    methods = [named(baseline, calibration) for baseline in BASELINES for calibration in ("raw", *CALIBRATIONS)]
    return coded_cube("tiny-a", methods, (*METRICS, WITHIN))


def test_length_alone_has_no_calibration_error_as_it_is(layout, cube):
    numbers = recalibrated.prepare(layout, cube, [])
    undefined = numbers[numbers["value"].isna()]
    assert (
        set(undefined["baseline"])
        == {name for name, baseline in BASELINES.items() if baseline.ranks_only}
        >= {"length"}
    )
    assert set(undefined["calibration"]) == {"raw"}
    assert set(undefined["metric"]) == {"ece"}
    assert undefined[["lower", "upper"]].isna().all(axis=None)
    text = latex(recalibrated.grid(numbers, layout, metrics=cube))
    assert r"Length (shorter is surer) & --" in text


def test_a_slope_of_the_wrong_sign_is_said_of_its_rows_alone(layout, cube):
    """Of length on all rollouts, of RLCR on its own policy, and of one of two seeds of a companion."""
    grpo = {("length", -1, "all"): -11.1, ("length", -1, "last"): 4.2, ("cocal-binary", 42, "resampled"): 1.5}
    grpo |= {("cocal-binary", 137, "resampled"): -0.2, ("token-probability", -1, "all"): 0.0}
    fits = [coded_fits(grpo), coded_fits({("rlcr", -1, "last"): -0.3})]
    numbers = recalibrated.prepare(layout, cube, fits)
    wrong = numbers[numbers["wrong_slopes"] > 0].groupby("method")["wrong_slopes"].unique()
    turned = ["cocal-binary+platt-resampled", "length+platt-all", "rlcr+platt-last"]
    assert {name: [*counts] for name, counts in wrong.items()} == {name: [1] for name in turned}
    text = latex(recalibrated.grid(numbers, layout, metrics=cube))
    assert "* marks Platt scaling with a slope of the wrong sign" in text
    marked = re.findall(r"^(.*) \* &", text, re.MULTILINE)
    assert marked == ["Length (shorter is surer)", "RLCR", "CoCal (binary)"]
    assert "wrong sign" not in latex(recalibrated.grid(recalibrated.prepare(layout, cube, []), layout, metrics=cube))


def test_a_study_has_the_baselines_of_its_methods(study):
    def names(changed):
        return [one.name for one in baselines.all_baselines(changed)]

    def without(*methods):
        left = tuple(name for name in study.estimators.methods if name not in methods)
        return study.model_copy(update={"estimators": study.estimators.model_copy(update={"methods": left})})

    assert names(study) == list(BASELINES)
    assert {"self-consistency-loo", "semantic-entropy"}.isdisjoint(names(without("self-consistency")))
    assert baselines.recalibrated_algorithms(without("rlcr")) == ["grpo", "dcpo"]
    postcal, cocal = ("postcal-group", "postcal-binary"), ("cocal-group", "cocal-binary")
    assert baselines.reader_folders(without(*postcal, *cocal), "grpo") == {}
    assert baselines.reader_folders(study, "rlcr") == {}
    assert set(baselines.reader_folders(without(*cocal), "grpo")) == {"resampled"}
    assert set(baselines.reader_folders(without(*postcal), "grpo")) == {"rollouts", "one-layer"}
    nothing = without(*(baseline.method for baseline in BASELINES.values()))
    assert "recalibrated" not in exhibits_by_name(nothing)
