"""Which response is taken, and which questions are kept: the rules by hand."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cocal.metrics.choices import best_of_n, first, kept_accuracy, solvable, vote

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


@given(
    st.lists(st.lists(st.integers(-1, 3), min_size=1, max_size=10), min_size=1, max_size=5),
    st.floats(1e-9, 1.0),
)
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


def test_no_choice_exceeds_the_oracle():
    draw = np.random.default_rng(0)
    question, correct = np.repeat(np.arange(50), 4), draw.random(200) < 0.3
    best = solvable(question, correct)
    np.testing.assert_array_equal(best, correct.reshape(50, 4).any(axis=1))
    assert (correct[best_of_n(question, draw.random(200))] <= best).all()
    np.testing.assert_array_equal(correct[best_of_n(question, correct.astype(float))], best)


def test_the_most_confident_questions_are_kept_and_the_last_one_in_part():
    confidence, correct = np.array([0.9, NAN, 0.5, 0.7]), np.array([True, False, False, True])
    once, twice = np.ones((4, 1), dtype=np.int32), np.array([[1], [0], [2], [1]], dtype=np.int32)
    for sent, counts, expected in ((0, once, 2 / 4), (0.25, once, 2 / 3), (0.4, once, 2 / 2.4), (0.25, twice, 2 / 3)):
        np.testing.assert_allclose(kept_accuracy(confidence, correct, sent, counts), [expected])
