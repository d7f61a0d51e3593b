"""How much of a response is pooled (appendix D, cross-policy transfer)."""

from collections.abc import Callable, Sequence

from cocal.answers.confidence import confidence_span
from cocal.answers.tokens import token_of

REASON = "<reason>"
"""Opens RLCR's uncertainty reasoning."""


def task_length(ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> int:
    """Number of leading tokens that hold the task response alone: all before the first `<reason>`.

    The uncertainty reasoning and the confidence text stay out; where a malformed response has no tag, the confidence
    statement ends the task response. A token that joins the end of the one with the beginning of the other is out.

    Args:
        ids: response tokens.
        decode: text of token ids, special tokens left out, spaces untouched.

    Returns:
        0 to len(ids); all of them, the end-of-sequence token included, if there is neither.
    """
    text = decode(ids)
    end = text.find(REASON)
    if end < 0:
        span = confidence_span(text)
        if span is None:
            return len(ids)
        end = span[0]
    return token_of(ids, decode, end)
