"""Shares of usable responses, on which numbers rest."""

import numpy as np

from cocal.config.evaluation import MetricSettings, QualitySettings
from cocal.metrics.cells import RATES, RESTS_ON, rates_of, shortfalls
from cocal.metrics.cube import metric_cube
from sample_predictions import doubtful_predictions


def test_shares_of_a_cell_and_of_the_macro_average():
    cube = metric_cube(doubtful_predictions(), MetricSettings(resamples=0), {"macro-mathematics": ["amc23", "amc24"]})
    at = {"backbone": "tiny-a", "algorithm": "grpo", "step": 60, "seed": "mean"}
    verbal, asked_true, companion = (cube.sel({**at, "method": m}) for m in ("verbal", "p-true", "cocal-binary"))
    assert float(verbal["valid_rate"].sel(dataset="amc23")) == 0.75
    assert float(companion["valid_rate"].sel(dataset="amc23")) == 1.0
    for one in (verbal, asked_true, companion):
        assert one["answered_rate"].sel(dataset=["amc23", "amc24", "macro-mathematics"]).values.tolist() == [
            0.8,
            1,
            0.9,
        ]
        assert float(one["decided_rate"].sel(dataset="amc23")) == 0.975
        assert np.isnan(one["exact_match_accuracy"]).all()
    np.testing.assert_allclose(asked_true["p_true_mass"].sel(dataset=["amc23", "macro-mathematics"]), [0.2, 0.55])
    assert np.isnan(verbal["p_true_mass"]).all()


def test_rates_are_told_apart():
    frame = doubtful_predictions().assign(truncated=lambda f: f["response_id"] % 5 < 2)
    rates = rates_of(frame[frame["dataset"] == "amc23"])
    assert list(rates) == list(RATES)
    assert (rates["answered_rate"], rates["truncation_rate"]) == (0.8, 0.4)
    assert np.isnan(rates["exact_match_accuracy"]), "no exact match is known"


def test_shortfalls_name_what_is_known_and_too_little():
    rates = {"valid_rate": 0.89, "answered_rate": 0.9, "decided_rate": float("nan"), "truncation_rate": 0.0}
    assert shortfalls(rates, QualitySettings()) == {"valid_rate": 0.89}
    assert shortfalls({"p_true_mass": 0.3}, QualitySettings(p_true_mass=0.3)) == {}
    rounded = {"valid_rate": np.nextafter(0.9, 0)}  # as a mean over seeds may be
    assert shortfalls(rounded, QualitySettings()) == {}
    assert set(QualitySettings.model_fields) == set().union(*RESTS_ON.values()) < set(RATES)
