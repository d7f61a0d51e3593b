"""Answers and confidences are read from responses, also from hostile text."""

import pytest

from cocal.answers.extraction import confidence_span, extract_answer, parse_confidence

MEGABYTE = 1_000_000


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
        "\n**CONFIDENCE**: \\boxed{0.9}",
        "\n**CONFIDENCE:** \\(\\boxed{0.9}\\)",
        "\nCONFIDENCE: \\[ \\boxed{0.9} \\]",
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
        "CONFIDENCE:" + "\\(" * MEGABYTE,
        "\\" * MEGABYTE,
    ],
)
def test_megabyte_texts_end(text):
    """A quadratic scan of these texts would take hours."""
    assert extract_answer(text) is None
    assert parse_confidence(text) is None


VALID = {0.9: ["0.9", "0.9.", "**0.9**", "\n0.9", "0.9  \nHope this helps.", "0.9\r\n"], 0.5: [".5"], 0.0: ["0"]}
VALID |= {1.0: ["1", "1.0", "1.000"]}
INVALID = r"1e-3;10.5;85%;0.5%;85;1.01;1.;0.;+0.5;-0.1;0.9/1;0.9 or 0.8;0.9 (sure);0,9;1.2.3;high;;nan;inf;0x1;٠.٩"
VALID |= {None: [*INVALID.split(";"), r"\boxed{0.9}", "<0.9>", "0.5-0.6", "1*0.5"]}
STATEMENTS = {
    0.7: ["CONFIDENCE：0.7", "CONFIDENCE : 0.7", "**CONFIDENCE:** 0.7", "CONFIDENCE: 0.2\nCONFIDENCE: 0.7"],
    None: ["confidence: 0.7", "OVERCONFIDENCE: 0.7", "4 andCONFIDENCE: 0.7", "CONFIDENCE 0.7", "no statement"],
}
STATEMENTS[0.7] += ["\\boxed{4}<reason>CONFIDENCE: 0.2</reason>\nCONFIDENCE: 0.7"]
STATEMENTS[None] += ["CONFIDENCE: 0.2\nCONFIDENCE: high", r"CONFIDENCE: 0.7 \boxed{4}", "CONFIDENCE: 0.7\n\\boxed{4}"]
STATEMENTS[None] += ["\\boxed{4}<reason>r\nCONFIDENCE: 0.2\n</reason>"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((value, rf"\boxed{{4}} CONFIDENCE: {stated}") for value, texts in VALID.items() for stated in texts),
        *((value, text) for value, texts in STATEMENTS.items() for text in texts),
    ],
)
def test_the_last_statement_counts_and_an_invalid_one_is_none_never_a_default(value, text):
    assert parse_confidence(text) == value


def test_span_runs_from_the_last_statement_to_the_end():
    text = "\\boxed{4}\nCONFIDENCE: 0.2\n**CONFIDENCE: 0.7**\n"
    start, end = confidence_span(text)
    assert text[start:end] == "CONFIDENCE: 0.7**\n"
    assert confidence_span("CONFIDENCE: high") == (0, 16)  # malformed, still confidence text
    assert confidence_span(r"CONFIDENCE: 0.7 \boxed{4}") is None
    assert confidence_span(r"\boxed{4}") is None
