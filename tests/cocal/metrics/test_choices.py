"""Which response is taken, which questions are kept, and certified thresholds: the rules by hand, and a simulation."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from cocal.metrics.choices import CANDIDATES, best_of_n, candidates, certified, fewest_questions, first, vote
from cocal_study.cubes.choices import kept_accuracy, tried

NAN = float("nan")
QUESTION = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
CONFIDENCE = np.array([0.2, 0.9, 0.5, 0.9, NAN, 0.3, 0.3, NAN, NAN])
CLASSES = np.array([0, 1, 0, 2, 0, -1, 1, -1, -1])


def test_best_of_n_takes_the_most_confident_response_and_the_earliest_of_equals():
    assert best_of_n(QUESTION, CONFIDENCE).tolist() == [1, 5, 7]
    assert first(QUESTION).tolist() == [0, 4, 7]
    assert best_of_n(np.array([1, 0, 1]), np.array([0.1, NAN, 0.2])).tolist() == [1, 2]  # not in the order of questions
    assert best_of_n(np.array([0, 0]), np.array([NAN, 0.0])).tolist() == [1]  # 0 is a confidence


def test_a_vote_is_the_sum_of_the_confidences_in_an_answer():
    assert vote(QUESTION, CLASSES, CONFIDENCE).tolist() == [1, 6, 7]  # 0.7 for class 0, 0.9 for classes 1 and 2
    assert vote(QUESTION, CLASSES).tolist() == [0, 4, 7]  # two of four; a tie; no answer at all
    more = np.array([0.5, 0.9, 0.6, 0.9, NAN, 0.9, 0.0, NAN, NAN])
    assert vote(QUESTION, CLASSES, more).tolist() == [2, 4, 7]  # 1.1 for class 0, by its most confident; 0 against 0


def test_sums_do_not_depend_on_the_order_of_the_responses():
    """A running sum of 0.1, 0.2 and 0.3 depends on their order, and a tie would turn with it."""
    question, classes = np.zeros(6, dtype=np.int64), np.array([0, 0, 0, 1, 1, 1])
    assert sum([0.1, 0.2, 0.3]) > sum([0.3, 0.2, 0.1])
    for weights in ([0.3, 0.2, 0.1, 0.1, 0.2, 0.3], [0.1, 0.2, 0.3, 0.3, 0.2, 0.1]):
        assert vote(question, classes, np.array(weights))[0] < 3


@given(st.lists(st.lists(st.integers(-1, 3), min_size=1, max_size=10), min_size=1, max_size=5), st.floats(1e-9, 1.0))
def test_uniform_weights_are_majority_voting_ties_included(pools, weight):
    question = np.repeat(np.arange(len(pools)), [len(pool) for pool in pools])
    classes = np.concatenate(pools)
    chosen = vote(question, classes, np.full(len(classes), weight))
    np.testing.assert_array_equal(chosen, vote(question, classes))
    starts = np.cumsum([0, *map(len, pools)])
    for start, pool, row in zip(starts, pools, chosen, strict=False):
        answers = [one for one in pool if one >= 0]
        expected = Counter(answers).most_common(1)[0][0] if answers else pool[0]  # the first of the most frequent
        assert row == start + pool.index(expected)


def test_the_most_confident_questions_are_kept_and_the_last_one_in_part():
    confidence, correct = np.array([0.9, NAN, 0.5, 0.7]), np.array([True, False, False, True])
    once, twice = np.ones((4, 1), dtype=np.int32), np.array([[1], [0], [2], [1]], dtype=np.int32)
    for sent, counts, expected in ((0, once, 2 / 4), (0.25, once, 2 / 3), (0.4, once, 2 / 2.4), (0.25, twice, 2 / 3)):
        np.testing.assert_allclose(kept_accuracy(confidence, correct, sent, counts), [expected])


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


@pytest.mark.parametrize("risk", RISKS.values(), ids=RISKS)
def test_the_risk_bound_holds_in_simulation(risk):
    """By the true risk of a new answered question, it is broken no more often than a binomial number with the chance
    delta may be. The lowest threshold with an empirical risk within the bound breaks it more often."""
    centres = (np.arange(10_000) + 0.5) / 10_000
    above = np.cumsum(risk(centres)[::-1])[::-1] / np.arange(10_000, 0, -1)
    draw, broken = np.random.default_rng(0), {"certified": 0, "naive": 0}
    for _ in range(REPETITIONS):
        confidence, new = draw.random((2, 300))
        correct = draw.random(300) >= risk(confidence)
        kept = [t for t in candidates(new) if (~correct[confidence >= t]).mean() <= BOUND]
        threshold = certified(confidence, correct, candidates(new), max_risk=BOUND, delta=DELTA)
        for name, one in (("certified", threshold), ("naive", min(kept, default=None))):
            broken[name] += one is not None and above[int(one * 10_000)] > BOUND
    assert broken["certified"] <= binom.ppf(0.999, REPETITIONS, DELTA) < broken["naive"]


def test_what_thresholds_achieve_is_tried_on_the_other_half():
    """One half certifies, the other is decided; three companions, of which one has no confidence. The numbers were
    counted once more by hand: means over companions of the answered share, of the risk and of having a threshold."""
    draw = np.random.default_rng(1)
    sure = draw.random(241)
    confidence = np.stack([sure, np.full(241, NAN), (sure + 0.3 * draw.random(241)) / 1.3])
    correct = draw.random(241) < np.where(confidence[0] > 0.4, 0.97, 0.5)
    options = {"max_risk": 0.2, "delta": 0.2}
    found = tried(confidence, correct, splits=4, generator=np.random.default_rng(0), **options)
    counted = [[0.567493, 0.169903], [0.567493, 0.149579], [0.418733, 0.058523], [0.584022, 0.198005]]
    np.testing.assert_allclose(found, [[*one, 2 / 3] for one in counted], atol=1e-6)
    none = tried(confidence[1:2], correct, splits=2, generator=np.random.default_rng(1), **options)
    np.testing.assert_array_equal(none, [[0, NAN, 0]] * 2)
