"""The split of questions into training and validation."""

import numpy as np
import pytest

from cocal.companion.supervision import in_validation
from cocal.errors import ContractError


def test_the_split_goes_by_the_text_and_the_question_table_alone():
    texts = [f"question {k}" for k in range(3000)]
    side = in_validation(texts, texts, 0.1, 42)
    mixed = np.random.default_rng(0).permutation(3000)
    shuffled = [texts[k] for k in mixed]
    np.testing.assert_array_equal(in_validation(shuffled, shuffled, 0.1, 42), side[mixed])
    np.testing.assert_array_equal(in_validation(texts[:300], texts, 0.1, 42), side[:300])  # what was asked is no matter
    assert (in_validation(texts, texts, 0.1, 43) != side).any()
    held_out = int(np.flatnonzero(side)[0])
    assert in_validation([texts[held_out], f"  Question\n {held_out}"], texts, 0.1, 42).all()
    with pytest.raises(ContractError, match="'question 9' is not in the question table"):
        in_validation(["question 9"], texts[:9], 0.1, 42)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("count", "share", "held_out"),
    [(3000, 0.1, 300), (45, 0.1, 5), (44, 0.1, 4), (50, 0.29, 15), (3, 0.1, 1), (1, 0.1, 1), (0, 0.1, 0)],
)
def test_the_share_is_exact_with_halves_up_and_one_at_least(count: int, share: float, held_out: int, seed: int):
    texts = [f"question {k}" for k in range(count)]
    assert in_validation(texts, texts, share, seed).sum() == held_out


def test_texts_that_differ_in_case_and_white_space_count_once():
    texts = [f"question {k}" for k in range(100)]
    twice = [*texts, *(f"Question  {k}" for k in range(50))]
    side = in_validation(twice, twice, 0.1, 42)
    np.testing.assert_array_equal(side[:100], in_validation(texts, texts, 0.1, 42))
    np.testing.assert_array_equal(side[100:], side[:50])
