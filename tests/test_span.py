"""Which tokens of a response are the task's (appendix D), and from characters to tokens."""

import pytest

from cocal.features.span import task_length
from cocal.verify.tokens import token_of

TOKENS = ["1+1=2\n", r"\boxed{2}", "\n<rea", "son>", "sure", "</reason>", "\nCONF", "IDENCE: ", "0.9", ""]
END = len(TOKENS) - 1  # a special token: no text


def decode(ids) -> str:
    return "".join(TOKENS[i] for i in ids)


def test_the_task_response_ends_before_the_first_reason_tag():
    ids = list(range(len(TOKENS)))
    assert task_length(ids, decode) == 2  # the token that joins the line break with the tag is out
    assert task_length([0, 1, 2, 3, 4, 0, 2, 3], decode) == 2


@pytest.mark.parametrize(
    ("ids", "length"),
    [
        ([0, 1, END], 3),  # neither tag nor confidence: all of it, the end-of-sequence token included
        ([0, 1, 6, 7, 8, END], 2),  # no tag: the confidence statement ends it
        ([2, 3, 4, 5], 0),
        ([0, 2], 2),  # "<rea" is no tag
    ],
)
def test_malformed_responses(ids, length):
    assert task_length(ids, decode) == length


def test_a_character_is_found_in_its_token():
    ids = [0, 1, 2, 3, END]
    text = decode(ids)
    for character in range(len(text)):
        ends = [len(decode(ids[: k + 1])) for k in range(len(ids))]
        assert token_of(ids, decode, character) == next(k for k, end in enumerate(ends) if end > character)


def test_a_token_that_begins_inside_a_character_does_not_mislead():
    pieces = [b"a\xc3", b"\xa9 ", b"<reason>"]

    def decode_bytes(ids) -> str:
        return b"".join(pieces[i] for i in ids).decode(errors="replace")

    assert task_length([0, 1, 2], decode_bytes) == 2
