"""Exact match of factual answers, and the partition of a pool into classes."""

from itertools import permutations

import numpy as np
import pytest

from cocal.answers.judge import ExactMatch, decided_rows, normalise_text, partition
from cocal.answers.spelling import canonical_integer


def test_factual_answers_match_an_alias_exactly_but_for_their_form():
    golds = [["Mark Twain", "Samuel Clemens"], ["Mark Twain"], ["Rome"], ["Rome"], ["Rome"]]
    answers = ["samuel  clemens.", "Twain", "the ROME.", None, "Rome" + " x" * 400]
    assert ExactMatch().correct(golds, answers, []).values.tolist() == [True, False, True, False, False]


def test_a_currency_may_be_missing_but_two_currencies_differ():
    golds = [["$5"], ["$5"], ["£5"], ["5 €"], ["-¥5"], ["-¥5"]]
    answers = ["5", "€5", "$5", "€5", "¥5", "-5"]
    assert ExactMatch().correct(golds, answers, []).values.tolist() == [True, False, False, True, False, True]
    labels = ExactMatch().classes(["£5", "$5", "£5", "5", "x" * 600], [0] * 5, []).values
    assert labels.tolist() == [0, 1, 0, 0, 2]


def test_dates_and_joined_words_have_one_form():
    same = {"10 July 1951": "July 10, 1951", "July 4, 1776": "4th of July, 1776", "May 27": "May 27th"}
    same |= {"Rock & Roll": "rock and roll", "US$5 million": "$5 million"}
    for golds, verdict in ((same, True), ({"July 4": "14 July", "May 4": "March 4", "AT&T": "AT and T"}, False)):
        found = ExactMatch().correct([[gold] for gold in golds], list(golds.values()), [])
        assert found.values.tolist() == [verdict] * len(golds)


def test_factual_classes():
    answers = ["The Nile", "nile.", "Amazon", None, "x" * 600, "x" * 600, "nile", ""]
    labels = ExactMatch().classes(answers, [0, 0, 0, 0, 0, 0, 1, 0], []).values
    assert labels.tolist() == [0, 0, 1, -1, 2, 3, 0, 4]  # over-long answers are not even their like's


def test_the_members_of_a_class_are_linked_to_each_other_whatever_the_order():
    """b is linked to three answers that are not linked to one another, as a bare number to three with units."""
    linked = {("a", "b"), ("c", "b"), ("e", "b"), ("f", "g"), ("g", "h"), ("h", "f")}
    forms = ["a", "c", "d", "b", "a", "e", "f", "g", "h"]
    for order in [*permutations(range(6))][::7]:
        asked = [forms[i] for i in (*order, 6, 7, 8)]

        def joined(pairs, asked=asked):
            named = [(asked[first], asked[second]) for first, second in pairs]
            assert len(set(map(frozenset, named))) == len(named) == 28
            return [pair in linked or pair[::-1] in linked for pair in named]

        labels = partition(asked, [0] * len(asked), joined)
        found = dict(zip(asked, labels.tolist(), strict=True))
        assert found["a"] == found["b"], "the most frequent answer comes first"
        assert found["f"] == found["g"] == found["h"]
        assert len(set(found.values())) == 5
        assert list(dict.fromkeys(labels.tolist())) == [0, 1, 2, 3, 4]


def test_an_open_pair_that_shares_a_class_is_settled():
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
        ("The The", "the"),
        ("ﬁne", "fine"),
        ("O’Brien", "obrien"),
        ("Röntgen – São Paulo", "rontgensaopaulo"),
        ("1,234,567.50", "1234567.5"),
        ("9/11", "9/11"),
        ("a -7 °C day", "-7cday"),
        ("mid-1990s", "mid1990s"),
        ("C++ and C#", "c++andc#"),
        ("12 000", "12 000"),
        ("が", "が"),
        ("-.5 V", "-0.5v"),
        ("- 5", "-5"),
        ("10^{-6}", "10^-6"),
        ("10⁻⁶", "10^-6"),
        ("2½", "2 1/2"),
        ("B+", "b+"),
        ("Cl-", "cl-"),
        ("G♯", "g#"),
        ("E♭", "e♭"),
        ("<= 7", "≤7"),
        ("5 €", "5€"),
        ("$Rome$", "rome"),
        ("Vitamin A", "vitamina"),
        ("Smiths, The", "smiths"),
        ("A. E. van Vogt", "aevanvogt"),
        ("1914 – 1918", "1914-1918"),
        ("Straße", "strasse"),
        ("4×100", "4x100"),
        ("?!", "?!"),
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
