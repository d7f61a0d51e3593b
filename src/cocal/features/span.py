"""How much of a response is pooled (appendix D, cross-policy transfer)."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cocal.answers.confidence import confidence_span
from cocal.answers.tokens import token_of
from cocal.checkpoints.text import plain_texts

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedTokenizerBase

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


def task_responses(responses: "pd.DataFrame", tokenizer: "PreTrainedTokenizerBase") -> "pd.DataFrame":
    """Responses cut to their `task_length`; those of which nothing is left are left out.

    Args:
        responses: with the columns response_ids and length, which are replaced.
        tokenizer: of the policy.
    """

    def decode(ids: Sequence[int]) -> str:
        return plain_texts(tokenizer, [ids])[0]

    lengths = [task_length(ids, decode) for ids in responses["response_ids"]]
    cut = [ids[:length] for ids, length in zip(responses["response_ids"], lengths, strict=True)]
    responses = responses.assign(length=lengths, response_ids=cut)
    return responses[responses["length"] > 0].reset_index(drop=True)
