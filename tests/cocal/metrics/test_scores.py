"""Scores beyond those of the paper, each against a library or a slow, obvious reference; ties, one class, resamples."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as log_loss_of_sklearn

from cocal.metrics.calibration import bin_index
from cocal.metrics.scores import CLIP, MOST, SCORES, scores
from cocal_study.cubes.better import BETTER
from drawn_responses import random_responses

SEEDS = st.integers(0, 2**32 - 1)


def scores_of(seed: int, n: int) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
    """Confidences with many ties, correctness with both classes, and their scores."""
    confidence, correct = random_responses(seed, n)
    correct[:2] = True, False
    return confidence, correct, scores(confidence, correct, 10)


# Proper scores


@pytest.mark.slow
@given(SEEDS, st.integers(2, 60))
def test_the_brier_score_and_the_log_loss_are_those_of_scikit_learn(seed, n):
    confidence, correct, found = scores_of(seed, n)
    assert found["brier"] == pytest.approx(brier_score_loss(correct, confidence), abs=1e-12)
    clipped = confidence.clip(CLIP, 1 - CLIP)
    assert found["log_loss"] == pytest.approx(log_loss_of_sklearn(correct, clipped), abs=1e-9)


def test_the_log_loss_is_clipped_where_scikit_learn_clips_float32():
    found = scores(np.array([1.0, 0.0, 1.0]), np.array([False, True, True]), 10)["log_loss"]
    expected = log_loss_of_sklearn([False, True, True], np.array([1.0, 0.0, 1.0], dtype=np.float32))
    assert found == pytest.approx(expected, abs=1e-6)
    assert np.isfinite(found)
    assert scores(np.array([1.0]), np.array([False]), 10)["log_loss"] == pytest.approx(MOST["log_loss"], abs=1e-9)


@given(SEEDS, st.integers(1, 60), st.sampled_from([5, 10]))
def test_the_parts_of_the_brier_score_add_up(seed, n, bins):
    """Reliability - resolution + uncertainty, and what varies within the bins (Stephenson et al. 2008)."""
    confidence, correct = random_responses(seed, n)
    found = scores(confidence, correct, bins)
    parts = found["brier_reliability"] - found["brier_resolution"] + found["brier_uncertainty"]
    index = bin_index(confidence, bins)
    pair = confidence, correct.astype(float)
    mean, accuracy = (np.array([values[index == b].mean() for b in index]) for values in pair)
    within = ((confidence - mean) ** 2 - 2 * (confidence - mean) * (correct - accuracy)).mean()
    assert found["brier"] == pytest.approx(parts + within, abs=1e-12)
    assert scores(mean, correct, n * bins)["brier"] == pytest.approx(parts, abs=1e-12), "nothing varies within bins"
    assert found["brier_uncertainty"] == pytest.approx(correct.mean() * (1 - correct.mean()), abs=1e-12)


# Scores of the order


def wrong_at_each_place(confidence: np.ndarray, correct: np.ndarray) -> list[Fraction]:
    """How wrong the response at each place is on average over all orders of tied responses, most confident first."""
    shares = []
    for value in sorted(set(confidence.tolist()), reverse=True):
        tied = ~correct[confidence == value]
        shares += [Fraction(int(tied.sum()), len(tied))] * len(tied)
    return shares


def risks(confidence: np.ndarray, correct: np.ndarray) -> list[Fraction]:
    """The selective risk at the coverages 1/n, 2/n, ..., 1."""
    shares = wrong_at_each_place(confidence, correct)
    return [sum(shares[:k], Fraction(0)) / k for k in range(1, len(shares) + 1)]


@settings(max_examples=60)
@given(SEEDS, st.integers(2, 40))
def test_the_areas_under_the_risk_are_their_definitions(seed, n):
    confidence, correct, found = scores_of(seed, n)
    selective = risks(confidence, correct)
    assert found["aurc"] == pytest.approx(float(sum(selective) / n), abs=1e-12)
    generalised = [Fraction(0), *(risk * Fraction(k, n) for k, risk in enumerate(selective, 1))]
    area = sum((low + high) / 2 / n for low, high in pairwise(generalised))
    assert found["augrc"] == pytest.approx(float(area), abs=1e-12)
    best = sum(risks(correct.astype(float), correct)) / n
    risk = selective[-1]
    assert found["prr"] == pytest.approx(float((risk - sum(selective) / n) / (risk - best)), abs=1e-9)


@settings(max_examples=60)
@given(SEEDS, st.integers(2, 40))
def test_the_accuracy_at_a_coverage_counts_the_last_response_in_part(seed, n):
    confidence, correct, found = scores_of(seed, n)
    shares = wrong_at_each_place(confidence, correct)
    for name, coverage in (("accuracy_at_50", Fraction(1, 2)), ("accuracy_at_80", Fraction(4, 5))):
        whole, part = divmod(coverage * n, 1)
        wrong = sum(shares[: int(whole)], Fraction(0)) + (part * shares[int(whole)] if part else 0)
        assert found[name] == pytest.approx(float(1 - wrong / (coverage * n)), abs=1e-12)


def test_the_best_order_has_ratio_one_and_a_single_group_zero():
    correct = np.array([True, True, False, True, False])
    assert scores(np.where(correct, 0.9, 0.1), correct, 10)["prr"] == pytest.approx(1.0)
    alike = scores(np.full(5, 0.7), correct, 10)
    assert alike["prr"] == pytest.approx(0.0)
    assert alike["aurc"] == pytest.approx(0.4)
    assert alike["augrc"] == pytest.approx(0.2)
    assert alike["accuracy_at_50"] == alike["accuracy_at_80"] == pytest.approx(0.6)
    assert scores(np.where(correct, 0.1, 0.9), correct, 10)["prr"] < -1, "worse than random has no bound"


def adaptive_ece_by_definition(confidence: np.ndarray, correct: np.ndarray, bins: int) -> Fraction:
    """Each response is cut into as many pieces as there are bins, so that bins hold equally many pieces."""
    pieces = []
    for value in sorted(set(confidence.tolist())):
        tied = correct[confidence == value]
        gap = Fraction(int(tied.sum()), len(tied)) - Fraction(value)
        pieces += [gap] * (len(tied) * bins)
    n = len(confidence)
    return sum(abs(sum(pieces[b * n : (b + 1) * n], Fraction(0))) for b in range(bins)) / (n * bins)


@settings(max_examples=40)
@given(SEEDS, st.integers(1, 30), st.sampled_from([4, 10]))
def test_the_bins_of_the_adaptive_ece_hold_equally_many_responses(seed, n, bins):
    confidence, correct = random_responses(seed, n)
    found = scores(confidence, correct, bins)["adaptive_ece"]
    assert found == pytest.approx(float(adaptive_ece_by_definition(confidence, correct, bins)), abs=1e-12)


def test_better_confidences_have_better_scores():
    correct = np.array([True, True, False, True, False])
    good, bad = (scores(confidence, correct, 10) for confidence in (np.where(correct, 0.95, 0.05), np.full(5, 0.2)))
    directions = {name: BETTER[name] for name in SCORES}
    assert {name for name, direction in directions.items() if direction is None} == {"brier_uncertainty"}
    for name, direction in directions.items():
        if direction:
            assert (good[name] > bad[name]) == (direction == "higher"), name


# Smooth ECE


def smoothed_error(confidence: np.ndarray, correct: np.ndarray, bandwidth: float) -> float:
    """The mean over [0, 1] of |the smoothed difference|, with the kernel mirrored at both ends again and again."""
    points = (np.arange(4000) + 0.5) / 4000
    total = np.zeros(len(points))
    for c, y in zip(confidence, correct, strict=True):
        for mirror in (2 * k + sign * c for k in range(-3, 4) for sign in (1, -1)):
            total += (y - c) * np.exp(-(((points - mirror) / bandwidth) ** 2) / 2)
    return float(np.abs(total).mean() / (np.sqrt(2 * np.pi) * bandwidth * len(confidence)))


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_the_smooth_ece_is_the_bandwidth_that_equals_its_error(seed):
    confidence, correct = random_responses(seed, 30 * seed)
    found = scores(confidence, correct, 10)["smooth_ece"]
    assert smoothed_error(confidence, correct, found) == pytest.approx(found, abs=2e-5)


@pytest.mark.parametrize(
    ("n", "power", "seed", "published"), [(400, 2.0, 1, 0.171443), (2000, 1.0, 2, 0.02721), (1000, 0.5, 3, 0.155501)]
)
def test_the_smooth_ece_agrees_with_relplot(n, power, seed, published):
    """Numbers of relplot 1.0.3, whose bandwidths are multiples of 1/1024. It counts confidences of exactly 0 and 1 half
    because it does not mirror them; there are none here."""
    generator = np.random.default_rng(seed)
    confidence = generator.random(n) * 0.998 + 0.001
    correct = generator.random(n) < confidence**power
    assert scores(confidence, correct, 10)["smooth_ece"] == pytest.approx(published, abs=1.5e-3)


def test_the_smooth_ece_of_extreme_sets():
    sure = np.array([0.0, 1.0, 1.0])
    assert scores(sure, sure == 1, 10)["smooth_ece"] == 0
    assert scores(np.ones(3), np.zeros(3, dtype=bool), 10)["smooth_ece"] == pytest.approx(1.0, abs=1e-7)
    assert scores(np.full(9, 0.7), np.ones(9, dtype=bool), 10)["smooth_ece"] == pytest.approx(0.3, abs=1e-7)


# Undefined values


@pytest.mark.parametrize("correct", [True, False])
def test_scores_of_a_single_class(correct):
    confidence, alike = np.array([0.2, 0.9, 0.9]), np.full(3, correct)
    found = scores(confidence, alike, 10)
    assert {name for name, value in found.items() if np.isnan(value)} == {"prr"}
    assert found["aurc"] == pytest.approx(1 - correct, abs=1e-12)
    assert found["augrc"] == pytest.approx((1 - correct) / 2, abs=1e-12)
    assert found["brier_uncertainty"] == found["brier_resolution"] == 0


def test_without_a_valid_confidence_no_score_is_defined():
    found = scores(np.full(3, np.nan), np.array([True, False, True]), 10)
    assert list(found) == list(SCORES)
    assert all(np.isnan(value) for value in found.values())
