"""Conversion between texts and token ids."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cocal.errors import ContractError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Tokens = Sequence[int]


def check_tokens(where: str, prompt: np.ndarray, response: np.ndarray, vocabulary: int) -> None:
    """Refuse token ids that a model does not know.

    Args:
        where: Place of the prompt and the response, for the message.
        prompt: Token ids, int (n,).
        response: Token ids, int (m,).
        vocabulary: Number of rows of the model's embedding.

    Raises:
        ContractError: if an id is below 0 or not below `vocabulary`.
    """
    for name, ids in (("prompt", prompt), ("response", response)):
        outside = np.flatnonzero((ids < 0) | (ids >= vocabulary))
        if outside.size:
            raise ContractError(
                f"{where}: {name} token {outside[0]} is {ids[outside[0]]}, outside the model's vocabulary of "
                f"{vocabulary}; give the model that these responses come from"
            )


def chat_ids(tokenizer: "PreTrainedTokenizerBase", messages: Sequence[str]) -> list[list[int]]:
    """Token ids of single-turn chats in non-thinking mode, up to the beginning of the response."""
    texts = [render(tokenizer, [{"role": "user", "content": message}]) for message in messages]
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def render(
    tokenizer: "PreTrainedTokenizerBase",
    messages: Sequence[Mapping[str, str]],
    thinking: bool = False,
    template: str | None = None,
) -> str:
    """The text of a chat up to the beginning of the response.

    Args:
        tokenizer: Tokenizer with a chat template.
        messages: Messages, each with `role` and `content`.
        thinking: If true, the response begins in thinking mode, where the template knows it.
        template: Chat template in place of the tokenizer's own.
    """
    return tokenizer.apply_chat_template(
        [dict(message) for message in messages],
        chat_template=template,
        add_generation_prompt=True,
        enable_thinking=thinking,
        tokenize=False,
    )


def plain_texts(tokenizer: "PreTrainedTokenizerBase", ids: Sequence[Tokens]) -> list[str]:
    """Text of each response without special tokens and with unchanged spaces."""
    return tokenizer.batch_decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
