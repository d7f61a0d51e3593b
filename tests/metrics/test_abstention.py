"""Certified thresholds: the procedure by hand, and its guarantee in simulation."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from cocal.metrics.choices import CANDIDATES, candidates, certified, fewest_questions, tried

NAN = float("nan")


def test_candidates_are_reached_by_equal_shares_of_the_questions():
    draw = np.random.default_rng(0).permutation(200) / 200
    found = candidates(draw)
    assert [(draw >= threshold).sum() for threshold in found] == list(range(10, 201, 10))
    assert candidates(np.array([NAN, 0.5, 0.5, 0.25])).tolist() == [0.5, 0.25]
    assert candidates(np.array([NAN])).tolist() == []


def test_a_threshold_is_certified_as_soon_as_its_tail_is_below_its_level():
    """One candidate has all of delta: 0.8^10 > 0.1 > 0.8^11."""
    for answered, expected in ((10, None), (11, 0.5)):
        found = certified(np.full(answered, 0.5), np.ones(answered, bool), np.array([0.5]), max_risk=0.2, delta=0.1)
        assert found == expected
    certain = np.array([0.9] * 11 + [NAN] * 100)  # no confidence: never answered, however wrong
    assert certified(certain, np.arange(111) < 11, np.array([0.5]), max_risk=0.2, delta=0.1) == 0.5
    assert certified(certain, np.arange(111) < 11, np.empty(0), max_risk=0.2, delta=0.1) is None


def test_levels_are_those_of_the_fallback_procedure():
    """Twenty candidates have five starts, with a level of 0.02 each; ten more questions reach each next candidate."""
    confidence = np.repeat(np.arange(CANDIDATES, 0, -1) / CANDIDATES, 10)
    thresholds = np.unique(confidence)[::-1]

    def lowest(*wrong: int, below: int) -> float | None:
        """The threshold if these questions, and all after the first `below` candidates, are wrong."""
        correct = np.arange(len(confidence)) < 10 * below
        correct[list(wrong)] = False
        return certified(confidence, correct, thresholds, max_risk=0.1, delta=0.1)

    assert fewest_questions(0.1, 0.1) == 38  # 0.9^38 < 0.02 < 0.9^37
    assert fewest_questions(0.2, 0.1) == 18  # 0.8^18 < 0.02 < 0.8^17
    assert lowest(below=20) == thresholds[19]
    assert lowest(below=7) == thresholds[6]  # the start at 40 passes, and its level reaches up to the next failure
    assert lowest(below=3) is None  # nothing starts before 40
    assert binom.cdf(1, 40, 0.1) > 0.02 > binom.cdf(1, 70, 0.1)
    assert lowest(0, below=7) is None  # the start at 40 fails, and those between starts have no level of their own
    assert lowest(0, below=8) == thresholds[7]  # the start at 80 has its own
    assert 0.02 < binom.cdf(3, 80, 0.1) < 0.04
    assert lowest(70, 71, 72, below=8) == thresholds[7]  # which adds to the one that is handed on
    assert lowest(0, 70, 71, below=8) is None


Risk = Callable[[np.ndarray], np.ndarray]
RISKS: dict[str, Risk] = {
    "falls with the confidence": lambda c: 0.4 * (1 - c),
    "just above the bound everywhere": lambda c: np.full_like(c, 0.101),
    "the surest are wrong": lambda c: np.where(c > 0.9, 0.35, np.where(c > 0.5, 0.02, 0.5)),
    "a step": lambda c: np.where(c > 0.5, 0.07, 0.2),
}
REPETITIONS, BOUND, DELTA = 400, 0.1, 0.05


def _violations(risk: Risk, procedure: Callable) -> int:
    """How often a threshold breaks the bound, by the true risk of a new answered question."""
    centres = (np.arange(10_000) + 0.5) / 10_000
    above = np.cumsum(risk(centres)[::-1])[::-1] / np.arange(10_000, 0, -1)
    draw, broken = np.random.default_rng(0), 0
    for _ in range(REPETITIONS):
        confidence, new = draw.random((2, 300))
        correct = draw.random(300) >= risk(confidence)
        threshold = procedure(confidence, correct, new)
        broken += threshold is not None and above[int(threshold * 10_000)] > BOUND
    return broken


def _learn_then_test(confidence, correct, new):
    return certified(confidence, correct, candidates(new), max_risk=BOUND, delta=DELTA)


def _naive(confidence, correct, new):
    """The lowest threshold whose empirical risk is within the bound: what the guarantee is there to prevent."""
    kept = [t for t in candidates(new) if (~correct[confidence >= t]).mean() <= BOUND]
    return min(kept, default=None)


@pytest.mark.parametrize("risk", RISKS.values(), ids=RISKS)
def test_the_risk_bound_holds_in_simulation(risk):
    """No more violations than a binomial number with the chance delta may have."""
    most = binom.ppf(0.999, REPETITIONS, DELTA)
    assert _violations(risk, _learn_then_test) <= most
    assert _violations(risk, _naive) > most


def test_certified_thresholds_are_of_use():
    """Of easy questions nearly all are answered, of hard ones none."""
    draw = np.random.default_rng(0)
    confidence, new = draw.random((2, 1000))
    for risk, least in ((0.05, 0.0), (0.4, None)):
        found = _learn_then_test(confidence, draw.random(1000) >= risk, new)
        assert found == (None if least is None else new.min())


def test_what_thresholds_achieve_is_tried_on_the_other_half():
    """One half certifies, the other is decided; three companions, of which one has no confidence."""
    draw = np.random.default_rng(1)
    sure = draw.random(241)
    confidence = np.stack([sure, np.full(241, NAN), (sure + 0.3 * draw.random(241)) / 1.3])
    correct = draw.random(241) < np.where(confidence[0] > 0.4, 0.97, 0.5)
    options = {"max_risk": 0.2, "delta": 0.2}
    found = tried(confidence, correct, splits=4, generator=np.random.default_rng(0), **options)
    same = np.random.default_rng(0)
    for row in found:
        order = same.permutation(241)
        old, new = order[:120], order[120:]
        decided = []
        for one in confidence:
            threshold = certified(one[old], correct[old], candidates(one[new]), **options)
            answered = one[new] >= (2 if threshold is None else threshold)
            risk = 1 - correct[new][answered].mean() if any(answered) else NAN
            decided.append((answered.mean(), risk, any(answered)))
        np.testing.assert_allclose(row, [*np.nanmean(decided, axis=0)])
    assert len(np.unique(found[:, 0])) > 1
    assert 0 < found[:, 2].mean() < 1
    np.testing.assert_array_equal(
        tried(confidence[1:2], correct, splits=2, generator=same, **options), [[0, NAN, 0]] * 2
    )
