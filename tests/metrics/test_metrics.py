"""Metric definitions, the cluster bootstrap and the cube (appendix A.2; section 5, evaluation protocol)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from cocal.config.evaluation import MetricSettings
from cocal.metrics.bootstrap import centred_interval, generator_for, question_counts, resampled_metrics
from cocal.metrics.calibration import METRICS, auroc, bin_index, evaluate, expected_calibration_error, reliability_bins
from cocal.metrics.scores import Sample

SEEDS = (42, 137, 500)
QUICK = MetricSettings(resamples=40)


def random_responses(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Confidences, many of them tied multiples of 1/10, and correctness."""
    generator = np.random.default_rng(seed)
    confidence = np.where(generator.random(n) < 0.5, generator.integers(0, 11, n) / 10, generator.random(n))
    return confidence, generator.random(n) < 0.3 + 0.5 * confidence


# Bins


@pytest.mark.parametrize("bins", [10, 15, 20])
def test_an_edge_belongs_to_the_bin_below(bins):
    edges = np.array([m / bins for m in range(1, bins + 1)])
    assert bin_index(edges, bins).tolist() == list(range(bins))
    above = np.nextafter(edges[:-1], 1)
    assert bin_index(above, bins).tolist() == list(range(1, bins))
    assert bin_index(np.array([0.0]), bins).tolist() == [0]


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
        with pytest.raises(ValueError, match="row 1"):
            call()


def test_reliability_bins_leave_empty_bins_undefined():
    shown = reliability_bins(np.array([0.1, 0.05, 0.95]), np.array([True, False, True]))
    assert shown.count.tolist() == [2, *[0] * 8, 1]
    np.testing.assert_allclose(shown.accuracy, [0.5, *[np.nan] * 8, 1.0])
    np.testing.assert_allclose(shown.mean_confidence, [0.075, *[np.nan] * 8, 0.95])


# Metrics


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


@given(st.integers(0, 2**32 - 1), st.integers(2, 60))
def test_auroc_agrees_with_scikit_learn_under_ties(seed, n):
    confidence, correct = random_responses(seed, n)
    correct[:2] = True, False
    assert auroc(confidence, correct) == pytest.approx(roc_auc_score(correct, confidence), abs=1e-12)


@pytest.mark.parametrize("correct", [True, False])
def test_auroc_of_a_single_class_is_undefined(correct):
    assert np.isnan(auroc(np.array([0.2, 0.9]), np.array([correct, correct])))


def test_an_invalid_confidence_counts_in_accuracy_alone():
    confidence = np.array([0.9, 0.4, np.nan, np.nan])
    valid, correct = ~np.isnan(confidence), np.array([True, False, True, True])
    metrics = evaluate(confidence, valid, correct)
    assert metrics["accuracy"] == 0.75
    assert metrics["mean_confidence"] == pytest.approx(0.65)
    assert metrics["ece"] == pytest.approx((0.1 + 0.4) / 2)
    assert evaluate(confidence, valid, correct, bins=1)["ece"] == pytest.approx((0.4 - 0.1) / 2)
    assert metrics["auroc"] == 1.0


# Bootstrap


def a_sample(seed: int, questions: int, responses: int) -> Sample:
    confidence, correct = random_responses(seed, questions * responses)
    confidence[np.random.default_rng(seed).random(len(confidence)) < 0.1] = np.nan
    return Sample(np.repeat(np.arange(questions), responses), confidence, correct)


def test_weighted_metrics_equal_the_metrics_of_the_resampled_responses():
    samples = [a_sample(1, 12, 3), a_sample(2, 12, 1)]
    result = resampled_metrics(samples, 12, bins=10, resamples=25, generator=np.random.default_rng(3))
    counts = np.concatenate(list(question_counts(12, 25, np.random.default_rng(3))))
    for sample, of_sample in zip(samples, result, strict=True):
        for row, values in zip(counts, of_sample, strict=True):
            drawn = np.repeat(np.arange(len(sample.question)), row[sample.question].astype(int))
            confidence, correct = sample.confidence[drawn], sample.correct[drawn]
            valid = ~np.isnan(confidence)
            expected = evaluate(confidence, valid, correct)
            np.testing.assert_allclose(values, [expected[name] for name in METRICS], atol=1e-12)
            auc = values[METRICS.index("auroc")]
            np.testing.assert_allclose(auc, roc_auc_score(correct[valid], confidence[valid]), atol=1e-12)


def test_how_many_resamples_are_held_at_a_time_changes_nothing(monkeypatch):
    def resampled() -> np.ndarray:
        options = {"bins": 10, "resamples": 25, "generator": np.random.default_rng(3)}
        return resampled_metrics([a_sample(1, 12, 3)], 12, **options)[0]

    together = resampled()
    assert resampled().tobytes() == together.tobytes()
    monkeypatch.setattr("cocal.metrics.bootstrap._CHUNK", 70)
    np.testing.assert_allclose(resampled(), together, atol=1e-15)


def test_a_resample_draws_as_many_questions_as_there_are(monkeypatch):
    monkeypatch.setattr("cocal.metrics.bootstrap._CHUNK", 70)
    chunks = list(question_counts(10, 23, np.random.default_rng(0)))
    assert [len(chunk) for chunk in chunks] == [7, 7, 7, 2]
    assert all((chunk.sum(axis=1) == 10).all() for chunk in chunks)
    assert (np.concatenate(chunks).sum(axis=0) > 0).all(), "every question can be drawn"


def test_clustered_responses_have_wider_intervals_than_independent_ones():
    generator = np.random.default_rng(0)
    difficulty = np.repeat(generator.beta(0.4, 0.4, 30), 10)
    correct = generator.random(300) < difficulty
    confidence = np.clip(0.7 * difficulty + 0.3 * generator.random(300), 0, 1)

    def sd(question: np.ndarray, questions: int) -> np.ndarray:
        sample = Sample(question, confidence, correct)
        options = {"bins": 10, "resamples": 400, "generator": np.random.default_rng(1)}
        return resampled_metrics([sample], questions, **options)[0].std(axis=0)

    clustered, independent = sd(np.repeat(np.arange(30), 10), 30), sd(np.arange(300), 300)
    ratio = dict(zip(METRICS, clustered / independent, strict=True))
    assert ratio["accuracy"] > 1.8
    assert ratio["auroc"] > 1.2


def test_intervals_leave_out_undefined_resamples():
    value = np.array([0.2, 0.2, 0.5])
    resampled = np.array([[0.1, np.nan, 0.3], [np.nan] * 3, [0.5, 0.4, 0.6]])
    lower, upper = centred_interval(value, resampled, 0.5)
    np.testing.assert_allclose(lower, [0.15, np.nan, 0.45])
    np.testing.assert_allclose(upper, [0.25, np.nan, 0.55])


def test_intervals_are_centred_on_the_estimate_within_the_unit_interval():
    """The quantiles .45 and .55 less the bias .5 - .3; the quantiles .05 and .225 less the bias .15 - .05."""
    lower, upper = centred_interval(np.array([0.3, 0.05]), np.array([[0.4, 0.5, 0.6], [0.0, 0.1, 0.35]]), 0.5)
    np.testing.assert_allclose(lower, [0.25, 0.0])
    np.testing.assert_allclose(upper, [0.35, 0.125])


def test_the_interval_of_ece_holds_the_estimate():
    """Resamples of calibrated confidences have a larger ECE than the sample; the interval must not inherit it."""
    generator = np.random.default_rng(3)
    confidence = generator.random(300)
    sample = Sample(np.arange(300), confidence, generator.random(300) < confidence)
    ece = METRICS.index("ece")
    estimate = expected_calibration_error(sample.confidence, sample.correct, 10)
    options = {"bins": 10, "resamples": 1000, "generator": np.random.default_rng(1)}
    resampled = resampled_metrics([sample], 300, **options)[0][:, ece]
    assert np.quantile(resampled, 0.2) > estimate
    lower, upper = centred_interval(np.array(estimate), resampled, 0.95)
    assert lower < estimate < upper


def test_streams_differ_between_datasets_and_seeds():
    first = [generator_for(*key).integers(1 << 60) for key in ((1, "a"), (1, "b"), (2, "a"), (1, "a"))]
    assert len(set(first)) == 3
    assert first[0] == first[3]
