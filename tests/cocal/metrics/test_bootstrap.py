"""The cluster bootstrap over questions and its intervals (section 5, evaluation protocol)."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from cocal.metrics.bootstrap import centred_interval, generator_for, question_counts, resampled_means, resampled_metrics
from cocal.metrics.calibration import METRICS, evaluate
from cocal.metrics.scores import ALL, LEAST, MOST, Sample, scores
from drawn_responses import a_sample, random_responses


def resampled(sample: Sample, questions: int, resamples: int = 25, seed: int = 3, names=METRICS) -> np.ndarray:
    options = {"bins": 10, "resamples": resamples, "generator": np.random.default_rng(seed), "names": names}
    return resampled_metrics([sample], questions, **options)[0]


def test_weighted_metrics_equal_the_metrics_of_the_resampled_responses():
    samples = [a_sample(1, 12, 3), a_sample(2, 12, 1)]  # and one each, backwards; a question twice, one never
    samples += [Sample(which, *random_responses(4, 12)) for which in (np.arange(12)[::-1], np.r_[0, :11])]
    result = resampled_metrics(samples, 12, bins=10, resamples=25, generator=np.random.default_rng(3), names=ALL)
    counts = np.concatenate(list(question_counts(12, 25, np.random.default_rng(3))))
    for sample, of_sample in zip(samples, result, strict=True):
        for row, values in zip(counts, of_sample, strict=True):
            drawn = np.repeat(np.arange(len(sample.question)), row[sample.question].astype(int))
            confidence, correct = sample.confidence[drawn], sample.correct[drawn]
            valid = ~np.isnan(confidence)
            expected = evaluate(confidence, valid, correct) | scores(confidence, correct, 10)
            np.testing.assert_allclose(values, [expected[name] for name in ALL], atol=1e-6)
            auc = roc_auc_score(correct[valid], confidence[valid])
            np.testing.assert_allclose(values[METRICS.index("auroc")], auc, atol=1e-12)


def test_neither_the_chunks_nor_further_scores_change_the_metrics(monkeypatch):
    sample = a_sample(1, 12, 3)
    together = resampled(sample, 12)
    assert resampled(sample, 12).tobytes() == together.tobytes()
    assert resampled(sample, 12, names=ALL)[:, : len(METRICS)].tobytes() == together.tobytes()
    monkeypatch.setattr("cocal.metrics.bootstrap._CHUNK", 70)
    np.testing.assert_allclose(resampled(sample, 12), together, atol=1e-15)


def test_a_resample_draws_as_many_questions_as_there_are(monkeypatch):
    monkeypatch.setattr("cocal.metrics.bootstrap._CHUNK", 70)
    chunks = list(question_counts(10, 23, np.random.default_rng(0)))
    assert [len(chunk) for chunk in chunks] == [7, 7, 7, 2]
    assert all((chunk.sum(axis=1) == 10).all() for chunk in chunks)
    assert (np.concatenate(chunks).sum(axis=0) > 0).all(), "every question can be drawn"


def test_means_are_those_of_the_drawn_questions():
    values = np.random.default_rng(0).random((2, 3, 10))
    counts = np.concatenate(list(question_counts(10, 23, np.random.default_rng(1))))
    found = resampled_means(values, 23, np.random.default_rng(1))
    np.testing.assert_allclose(found, (values[..., None, :] * counts).sum(axis=-1) / 10)
    assert resampled_means(values, 0, np.random.default_rng(1)).shape == (2, 3, 0)


def test_streams_differ_between_datasets_and_seeds():
    first = [generator_for(*key).integers(1 << 60) for key in ((1, "a"), (1, "b"), (2, "a"), (1, "a"))]
    assert len(set(first)) == 3
    assert first[0] == first[3] == 843423001496572696, "as in every study that was published"


# Intervals


@pytest.mark.parametrize(
    ("value", "drawn", "lower", "upper"),
    [
        (0.3, [0.4, 0.5, 0.6], 0.25, 0.35),  # the quantiles .45 and .55 less the bias .5 - .3
        (0.05, [0.0, 0.1, 0.35], 0.0, 0.125),  # the quantiles .05 and .225 less the bias .15 - .05, from 0 on
        (0.95, [0.65, 0.9, 1.0], 0.875, 1.0),  # the mirror image
    ],
)
def test_intervals_are_centred_on_the_estimate_within_the_unit_interval(value, drawn, lower, upper):
    found = centred_interval(np.array([value]), np.array([drawn]), 0.5)
    np.testing.assert_allclose(np.concatenate(found), [lower, upper])


def test_rows_with_undefined_resamples_do_not_disturb_the_others():
    value, drawn = np.array([0.2, 0.2, 0.5]), np.array([[0.1, np.nan, 0.3], [np.nan] * 3, [0.5, 0.4, 0.6]])
    lower, upper = centred_interval(value, drawn, 0.5)
    np.testing.assert_allclose([lower, upper], [[0.15, np.nan, 0.45], [0.25, np.nan, 0.55]])
    assert np.isnan(centred_interval(value, np.empty((3, 0)), 0.5)).all(), "no resamples, no interval"


def test_an_interval_keeps_to_the_range_of_its_metric():
    places = [ALL.index(name) for name in ("prr", "log_loss", "brier")]
    least, most = (np.array(list(bounds.values()))[places] for bounds in (LEAST, MOST))
    value, drawn = np.array([-2.0, 3.0, 0.5]), np.array([[-3.0, -1.0], [2.0, 4.0], [-1.0, 2.0]])
    lower, upper = centred_interval(value, drawn, 1.0, least, most)
    np.testing.assert_allclose(lower, [-3.0, 2.0, 0.0])
    np.testing.assert_allclose(upper, [-1.0, 4.0, 1.0])


# Undefined resamples


def test_a_resample_without_valid_responses_is_undefined_alone():
    sample = Sample(np.arange(3), np.array([0.4, np.nan, np.nan]), np.array([True, False, True]))
    found = resampled(sample, 3, resamples=50, seed=0, names=ALL)
    undefined = np.isnan(found[:, ALL.index("brier")])
    assert 0 < undefined.sum() < 50
    for name in ("log_loss", "adaptive_ece", "smooth_ece", "aurc", "augrc", "accuracy_at_50"):
        assert (np.isnan(found[:, ALL.index(name)]) == undefined).all(), name
