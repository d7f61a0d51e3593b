"""Answers, confidences and equivalence: every rule of the verifier, with hostile text."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocal.answers.confidence import confidence_span, parse_confidence
from cocal.answers.equivalence import Verifier
from cocal.answers.extraction import extract_answer
from cocal.answers.judge import ExactMatch
from cocal.answers.normalise import canonical_integer, normalise_text
from cocal.answers.partition import decided_rows, partition
from cocal.config.evaluation import VerifierSettings

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def verifier():
    """A verifier with one process and a short time-out."""
    with Verifier(VerifierSettings(timeout=2.0)) as verifier:
        yield verifier


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{42}.", "42"),
        (r"\boxed{1} no, \boxed{2}", "2"),
        (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed{ \{1, 2\} }", r"\{1, 2\}"),
        (r"\boxed{\left\{ x \right.}", r"\left\{ x \right."),
        (r"\boxed{a \\{b}}", r"a \\{b}"),
        (r"\boxed {7}", "7"),
        (r"\boxed{\boxed{5}}", "5"),
        ("\\boxed{two\nlines}", "two\nlines"),
        (r"\boxed{π ≈ 3}", "π ≈ 3"),
        (r"\boxed{}", None),
        (r"\boxed{  }", None),
        (r"\boxed{1} then \boxed{2", None),
        (r"\boxed 5", None),
        ("42", None),
        ("", None),
    ],
)
def test_answer_is_the_last_balanced_box(text, answer):
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    "tail",
    [
        "\nCONFIDENCE: 0.8",
        "\n<reason>maybe \\boxed{9} instead</reason>\nCONFIDENCE: 0.3",
        "\n<reason>cut \\boxed{9",
        "\nCONFIDENCE: \\boxed{0.9}",
        "\n**CONFIDENCE: $\\boxed{0.9}$**",
    ],
)
def test_confidence_part_does_not_disturb_the_answer(tail):
    assert extract_answer(r"thus \boxed{7}." + tail) == "7"


@pytest.mark.parametrize(
    "text",
    [
        "{" * MEGABYTE,
        r"\boxed{" + "{" * MEGABYTE,
        r"\boxed{" * (MEGABYTE // 7),
        r"\boxed" + " " * MEGABYTE,
        "CONFIDENCE: " * (MEGABYTE // 12),
        "CONFIDENCE:" + "*" * MEGABYTE + "x",
        "CONFIDENCE: 0." + "9" * MEGABYTE + "*" * MEGABYTE + "x",
        "CONFIDENCE" + " " * MEGABYTE,
        "\\" * MEGABYTE,
    ],
)
def test_megabyte_texts_end(text):
    """A quadratic scan of these texts would take hours."""
    assert extract_answer(text) is None
    assert parse_confidence(text) is None


def test_megabyte_answer_is_extracted():
    assert extract_answer("x" * MEGABYTE + r"\boxed{" + "{}" * MEGABYTE + "}") == "{}" * MEGABYTE


VALID = {0.9: ["0.9", "0.9.", "**0.9**", "\n0.9", "0.9  \nHope this helps.", "0.9\r\n"], 0.5: [".5"], 0.0: ["0"]}
VALID |= {1.0: ["1", "1.0", "1.000"]}


@pytest.mark.parametrize(("value", "stated"), [(value, text) for value, texts in VALID.items() for text in texts])
def test_valid_confidence(stated, value):
    assert parse_confidence(rf"\boxed{{4}} CONFIDENCE: {stated}") == value


INVALID = r"1e-3;10.5;85%;0.5%;85;1.01;1.;0.;+0.5;-0.1;0.9/1;0.9 or 0.8;0.9 (sure);0,9;1.2.3;high;;nan;inf;0x1;٠.٩"


@pytest.mark.parametrize("stated", [*INVALID.split(";"), r"\boxed{0.9}", "<0.9>", "0.5-0.6", "1*0.5"])
def test_invalid_confidence_is_none_never_a_default(stated):
    assert parse_confidence(rf"\boxed{{4}} CONFIDENCE: {stated}") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("CONFIDENCE：0.7", 0.7),
        ("CONFIDENCE : 0.7", 0.7),
        ("**CONFIDENCE:** 0.7", 0.7),
        ("confidence: 0.7", None),
        ("OVERCONFIDENCE: 0.7", None),
        ("CONFIDENCE 0.7", None),
        ("no statement", None),
        ("CONFIDENCE: 0.2\nCONFIDENCE: 0.7", 0.7),
        ("CONFIDENCE: 0.2\nCONFIDENCE: high", None),
        (r"CONFIDENCE: 0.7 \boxed{4}", None),
        ("CONFIDENCE: 0.7\n\\boxed{4}", None),
        ("\\boxed{4}<reason>r\nCONFIDENCE: 0.2\n</reason>", None),
        ("\\boxed{4}<reason>CONFIDENCE: 0.2</reason>\nCONFIDENCE: 0.7", 0.7),
    ],
)
def test_which_statement_counts(text, value):
    assert parse_confidence(text) == value


@given(st.text(max_size=200))
def test_any_text_gives_a_share_or_none(text):
    value = parse_confidence("CONFIDENCE: " + text)
    assert value is None or 0.0 <= value <= 1.0


@given(st.integers(0, 10_000))
def test_every_decimal_share_is_read_back(thousandths):
    assert parse_confidence(f"CONFIDENCE: {thousandths / 10_000:.4f}") == thousandths / 10_000


def test_span_runs_from_the_last_statement_to_the_end():
    text = "\\boxed{4}\nCONFIDENCE: 0.2\n**CONFIDENCE: 0.7**\n"
    start, end = confidence_span(text)
    assert text[start:end] == "CONFIDENCE: 0.7**\n"
    assert confidence_span("CONFIDENCE: high") == (0, 16)  # malformed, still confidence text
    assert confidence_span(r"CONFIDENCE: 0.7 \boxed{4}") is None
    assert confidence_span(r"\boxed{4}") is None


EQUIVALENT = [
    ("5", " 5 "),
    ("025", "25"),
    ("-0", "0"),
    ("1/2", "0.5"),
    (r"\frac{1}{2}", "1/2"),
    ("1000", "1,000"),
    ("1,000", "1000"),
    (r"336^\circ", "336"),
    ("27.0", "27"),
    (r"\sqrt{2}", "2^{1/2}"),
    ("x^2+2x+1", "(x+1)^2"),
    ("-1", "−1"),
    ("5", "x=5"),
]
DIFFERENT = [
    ("5", "6"),
    ("5", "-5"),
    ("1/2", "0.51"),
    ("5", ""),
    ("", "5"),
    ("5", r"\frac{1}{0}"),
    ("5", "{" * 200 + "5" + "}" * 200 + "+1"),
    ("5", "}{"),
    ("5", "\x00"),
    ("5", "\\"),
    ("5", "五"),
    ("5", "🙂" * 100),
    ("5", "5" * MEGABYTE),
    ("5" * MEGABYTE, "5" * MEGABYTE),  # longer than max_answer_length
]


def test_mathematical_equivalence(verifier):
    pairs = EQUIVALENT + DIFFERENT
    verdicts = verifier.equivalent(pairs)
    assert verdicts.dtype == bool
    assert dict(zip(pairs, verdicts.tolist(), strict=True)) == {pair: pair in EQUIVALENT for pair in pairs}


def test_order_of_arguments_is_gold_then_answer(verifier):
    """math-verify unwraps an assignment in the answer, never in an expression of the gold that is no assignment."""
    assert verifier.equivalent([(r"(0, 1)", r"0 < x < 1"), (r"0 < x < 1", r"(0, 1)")]).tolist() == [False, True]


def test_correct_takes_any_alias_and_no_answer_is_wrong(verifier):
    golds = [["7", "1/2"], ["7"], ["7", "8"], ["7"]]
    assert verifier.correct(golds, ["0.5", "7", None, "8"]).values.tolist() == [True, True, False, False]


def test_classes_partition_each_pool_whatever_its_order(verifier):
    answers = ["1/2", "0.5", "7", None, r"\frac{2}{4}", "007", None, "x"]
    labels = verifier.classes(answers).values
    assert labels.tolist() == [0, 0, 1, -1, 0, 1, -1, 2]
    order = np.random.default_rng(0).permutation(len(answers))
    shuffled = verifier.classes([answers[i] for i in order]).values
    together = labels[:, None] == labels[None, :]
    assert ((shuffled[:, None] == shuffled[None, :]) == together[np.ix_(order, order)]).all()


def test_over_long_answers_agree_with_themselves_alone():
    with Verifier(VerifierSettings(max_answer_length=5)) as verifier:
        labels = verifier.classes(["123456", "123456", "1", None]).values
    assert labels[3] == -1
    assert len(set(labels.tolist())) == 4


def test_classes_are_numbered_within_their_pool(verifier):
    labels = verifier.classes(["5", "5", "6", "6"], pools=["a", "b", "b", "a"]).values
    assert labels.tolist() == [0, 0, 1, 1]
    labels = verifier.classes(["5", "6", "6", "7"], pools=["a", "b", "a", "b"]).values
    assert labels.tolist() == [0, 0, 1, 1], "a pool has no classes of another's answers"


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
