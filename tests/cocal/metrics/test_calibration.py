"""Metric definitions (appendix A.2)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from cocal.metrics.calibration import (
    METRICS,
    auroc,
    bin_edges,
    bin_index,
    evaluate,
    expected_calibration_error,
    pairs_within,
    reliability_bins,
)
from drawn_responses import random_responses

NOTHING = np.empty(0), np.empty(0, dtype=bool)


@pytest.mark.parametrize("bins", [10, 15, 20])
def test_an_edge_belongs_to_the_bin_below(bins):
    edges = bin_edges(bins)
    assert edges.tolist() == [m / bins for m in range(bins + 1)]
    assert bin_index(edges, bins).tolist() == [0, *range(bins)]
    assert bin_index(np.nextafter(edges[:-1], 1), bins).tolist() == list(range(bins))


def test_float32_is_refused_because_its_multiples_of_a_tenth_leave_their_bin():
    tenths = np.arange(1, 11) / 10
    with pytest.raises(TypeError, match="float64, not float32"):
        bin_index(tenths.astype(np.float32), 10)
    late_cast = tenths.astype(np.float32).astype(np.float64)
    astray = (np.flatnonzero(bin_index(late_cast, 10) != bin_index(tenths, 10)) + 1).tolist()
    assert astray == [1, 2, 3, 4, 6, 8]


@pytest.mark.parametrize("bad", [np.nan, -0.1, 1.1])
def test_a_valid_confidence_outside_the_unit_interval_is_an_error(bad):
    confidence, correct = np.array([0.5, bad]), np.array([True, False])
    for call in (
        lambda: bin_index(confidence, 10),
        lambda: auroc(confidence, correct),
        lambda: evaluate(confidence, np.array([True, True]), correct),
    ):
        with pytest.raises(ValueError, match="row 1 is"):
            call()


def test_reliability_bins_leave_empty_bins_undefined():
    shown = reliability_bins(np.array([0.1, 0.05, 0.95]), np.array([True, False, True]))
    assert shown["count"].tolist() == [2, *[0] * 8, 1]
    np.testing.assert_array_equal(shown["accuracy"], [0.5, *[np.nan] * 8, 1.0])
    np.testing.assert_allclose(shown["mean_confidence"], [0.075, *[np.nan] * 8, 0.95])
    assert len(reliability_bins(*NOTHING, bins=4)) == 4


def ece_by_definition(confidence: np.ndarray, correct: np.ndarray, bins: int) -> float:
    """The two sums of appendix A.2, response by response."""
    total = 0.0
    for b in range(bins):
        low, high = b / bins, (b + 1) / bins
        members = [i for i, c in enumerate(confidence) if low < c <= high or (b == 0 and c == 0)]
        if members:
            accuracy = sum(bool(correct[i]) for i in members) / len(members)
            mean = sum(float(confidence[i]) for i in members) / len(members)
            total += len(members) / len(confidence) * abs(accuracy - mean)
    return total


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.sampled_from([5, 10, 20]))
def test_ece_is_the_definition(seed, n, bins):
    confidence, correct = random_responses(seed, n)
    value = expected_calibration_error(confidence, correct, bins)
    assert value == pytest.approx(ece_by_definition(confidence, correct, bins), abs=1e-12)
    if bins == 10:
        assert value == expected_calibration_error(confidence, correct)


@given(st.integers(0, 2**32 - 1), st.integers(2, 60))
def test_auroc_agrees_with_scikit_learn_under_ties(seed, n):
    confidence, correct = random_responses(seed, n)
    correct[:2] = True, False
    assert auroc(confidence, correct) == pytest.approx(roc_auc_score(correct, confidence), abs=1e-12)


def test_an_invalid_confidence_counts_in_accuracy_alone():
    confidence = np.array([0.9, 0.4, np.nan, 7.0])  # what is stated without being valid is ignored
    valid, correct = np.array([True, True, False, False]), np.array([True, False, True, True])
    metrics = evaluate(confidence, valid, correct)
    assert tuple(metrics) == METRICS
    assert metrics == pytest.approx({"accuracy": 0.75, "mean_confidence": 0.65, "ece": 0.25, "auroc": 1.0})
    assert evaluate(confidence, valid, correct, bins=1)["ece"] == pytest.approx((0.4 - 0.1) / 2)


def test_what_no_response_defines_is_nan():
    assert np.isnan(expected_calibration_error(*NOTHING))
    assert np.isnan(auroc(*NOTHING))
    assert np.isnan([auroc(np.array([0.2, 0.9]), np.full(2, correct)) for correct in (True, False)]).all()
    confidence, correct = NOTHING
    assert np.isnan(list(evaluate(confidence, correct, correct).values())).all()
    unstated = evaluate(np.array([np.nan, np.nan]), np.array([False, False]), np.array([True, False]))
    assert unstated.pop("accuracy") == 0.5
    assert np.isnan(list(unstated.values())).all()


def test_pairs_within_questions_are_counted_question_by_question():
    """Compared with a loop over all pairs; ties count half, and a question of one class has no pair."""
    draw = np.random.default_rng(11)
    question, correct = draw.integers(7, size=80), draw.random(80) < 0.4
    correct[question == 3] = True
    confidence = np.round(draw.random(80), 1)
    won, pairs = np.zeros(9), np.zeros(9)
    for right in np.flatnonzero(correct):
        for wrong in np.flatnonzero(~correct & (question == question[right])):
            pairs[question[right]] += 1
            won[question[right]] += (confidence[right] > confidence[wrong]) + 0.5 * (
                confidence[right] == confidence[wrong]
            )
    found = pairs_within(question, confidence, correct, 9)
    assert pairs[3] == pairs[8] == 0 < pairs[0]
    assert [one.tolist() for one in found] == [won.tolist(), pairs.tolist()]
