"""Cells of a metric cube, what is said of those that it lacks, and the rates on which their numbers rest."""

import numpy as np
import pytest

from cocal.errors import ContractError
from cocal.metrics.calibration import METRICS
from cocal.metrics.scores import ALL
from cocal.metrics.settings import MetricSettings
from cocal_study.config.evaluation import QualitySettings
from cocal_study.cubes.cells import RATES, RESTS_ON, policy_cell, read_cell, read_cells, shortfalls
from sample_predictions import metric_cube, sample_predictions

CUBE = metric_cube(sample_predictions("math500", methods=("verbal", "cocal-binary")), MetricSettings(resamples=9))
CELL = {"backbone": "tiny-a", "algorithm": "grpo", "step": 60, "dataset": "math500", "method": "cocal-binary"}
CELL |= {"seed": "mean"}


def test_a_cell_is_read_with_its_intervals_rates_and_seeds():
    assert policy_cell("base-verbal", 120) == ("base", 0)
    assert policy_cell("cocal-binary", 120) == ("grpo", 120)
    one = CUBE.sel(CELL)
    rows = read_cell(CUBE, CELL, ("ece", "accuracy")).set_index("metric")
    assert rows.columns.tolist() == ["value", "lower", "upper", "n", *RATES, "seed_sd"]
    for name in ("value", "lower", "upper", "seed_sd"):
        assert rows[name].tolist() == [float(one[name].sel(metric=metric)) for metric in ("ece", "accuracy")]
    assert rows["n"].tolist() == [40, 40]
    assert rows["valid_rate"].tolist() == [1.0, 1.0]


def test_cells_are_stacked_under_the_parts_of_their_keys():
    cells = {("first", 2): CELL, ("second", 1): CELL | {"method": "verbal"}}
    rows = read_cells(CUBE, cells, ["name", "place"])
    assert rows[["name", "place", "metric"]].to_numpy().tolist() == [
        [name, place, metric] for name, place in cells for metric in METRICS
    ]


@pytest.mark.parametrize(
    ("changes", "metrics", "message"),
    [
        ({"layer": 2}, METRICS, "the cube has the dimensions backbone, .* are needed. A sweep over companions has its"),
        ({}, ALL, "^metrics: the cube has no metric brier; make it anew with `cocal metrics --scores`"),
        (
            {"dataset": "amc23"},
            METRICS,
            r"nothing for backbone tiny-a, .* method cocal-binary: no such dataset \(there are: math500\)",
        ),
        ({"method": "verbal", "seed": "42"}, METRICS, "nothing for .* method verbal; run its predictions"),
    ],
)
def test_what_a_cube_lacks_is_said(changes, metrics, message):
    with pytest.raises(ContractError, match=message):
        read_cell(CUBE, CELL | changes, metrics)


def test_shortfalls_name_what_is_known_and_too_little():
    rates = {"valid_rate": 0.89, "answered_rate": 0.9, "decided_rate": float("nan"), "truncation_rate": 0.0}
    assert shortfalls(rates, QualitySettings()) == {"valid_rate": 0.89}
    assert shortfalls({"p_true_mass": 0.3}, QualitySettings(p_true_mass=0.3)) == {}
    rounded = {"valid_rate": np.nextafter(0.9, 0)}  # as a mean over seeds may be
    assert shortfalls(rounded, QualitySettings()) == {}
    assert set(QualitySettings.model_fields) == set().union(*RESTS_ON.values()) < set(RATES)
