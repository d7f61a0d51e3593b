"""Exact match of factual answers, and the partition of a pool into classes."""

from itertools import permutations

import numpy as np
import pytest

from cocal.answers.judge import ExactMatch, decided_rows, partition
from cocal.answers.normalise import canonical_integer, normalise_text


def test_factual_answers_match_an_alias_exactly_but_for_their_form():
    golds = [["Mark Twain", "Samuel Clemens"], ["Mark Twain"], ["Rome"], ["Rome"], ["Rome"]]
    answers = ["samuel  clemens.", "Twain", "the ROME.", None, "Rome" + " x" * 400]
    assert ExactMatch().correct(golds, answers, []).values.tolist() == [True, False, True, False, False]


def test_factual_classes():
    answers = ["The Nile", "nile.", "Amazon", None, "x" * 600, "x" * 600, "nile", ""]
    labels = ExactMatch().classes(answers, [0, 0, 0, 0, 0, 0, 1, 0], []).values
    assert labels.tolist() == [0, 0, 1, -1, 2, 3, 0, 4]  # over-long answers are not even their like's


def test_a_chain_of_links_joins_a_class_whatever_the_order():
    linked = {("a", "b"), ("c", "b")}
    forms = ["a", "c", "d", "b", "a"]
    for order in permutations(range(len(forms))):
        asked = [forms[i] for i in order]

        def joined(pairs, asked=asked):
            named = [(asked[first], asked[second]) for first, second in pairs]
            assert len(set(map(frozenset, named))) == len(named) == 6
            return [pair in linked or pair[::-1] in linked for pair in named]

        labels = partition(asked, [0] * len(asked), joined)
        found = dict(zip(asked, labels.tolist(), strict=True))
        assert found["a"] == found["b"] == found["c"] != found["d"]


def test_a_pair_that_a_chain_has_joined_is_settled():
    labels = np.array([0, 0, 0, 1])
    decided = decided_rows(["a", "b", "c", "d"], [0] * 4, labels, [(0, 2)])
    assert decided.tolist() == [True] * 4
    decided = decided_rows(["a", "b", "c", "d"], [0] * 4, labels, [(0, 3)])
    assert decided.tolist() == [False, True, True, False]


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Beatles!", "beatles"),
        (r"\text{Paris}", "paris"),
        ("An apple a day", "apple day"),
        ("U.S.A.", "usa"),
        ("The The", "the the"),
        ("ﬁne", "fine"),
        ("", ""),
    ],
)
def test_factual_normal_form(text, normal):
    assert normalise_text(text) == normal


@pytest.mark.parametrize(
    ("text", "canonical"), [("-007", "-7"), ("+0", "0"), ("-00", "0"), (" 12 ", "12"), ("1.0", None), ("٣", None)]
)
def test_plain_integers(text, canonical):
    assert canonical_integer(text) == canonical
