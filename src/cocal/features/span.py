"""The part of a response whose states are pooled (appendix D, cross-policy transfer)."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cocal.answers.extraction import confidence_span, token_of
from cocal.models.text import plain_texts

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedTokenizerBase

REASON = "<reason>"
"""The tag that opens RLCR's uncertainty reasoning."""


def task_length(ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> int:
    """Count the leading tokens that hold the task response, which ends before the first `<reason>`.

    If a malformed response has no such tag, its task response ends before the confidence statement. A token that
    spans both sides of the boundary does not count.

    Args:
        ids: Response tokens.
        decode: Function that turns token ids into text, omits special tokens and keeps spaces unchanged.

    Returns:
        A number from 0 to len(ids). It is len(ids) if there is neither a tag nor a confidence statement.
    """
    text = decode(ids)
    end, statement = text.find(REASON), confidence_span(text)
    if end < 0 and statement is None:
        return len(ids)
    return token_of(ids, decode, end if end >= 0 else statement[0])


def task_responses(responses: "pd.DataFrame", tokenizer: "PreTrainedTokenizerBase") -> "pd.DataFrame":
    """Cut responses to their `task_length` and drop those that become empty.

    Args:
        responses: Table whose columns response_ids and length are replaced.
        tokenizer: The policy's tokenizer.
    """
    lengths = [task_length(ids, lambda part: plain_texts(tokenizer, [part])[0]) for ids in responses["response_ids"]]
    cut = [ids[:length] for ids, length in zip(responses["response_ids"], lengths, strict=True)]
    responses = responses.assign(length=lengths, response_ids=cut)
    return responses[responses["length"] > 0].reset_index(drop=True)
