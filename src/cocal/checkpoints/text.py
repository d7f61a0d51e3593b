"""Conversion between texts and token ids."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Tokens = Sequence[int]


def chat_ids(tokenizer: "PreTrainedTokenizerBase", messages: Sequence[str]) -> list[list[int]]:
    """Token ids of single-turn chats in non-thinking mode, up to the beginning of the response."""
    texts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": message}],
            add_generation_prompt=True,
            enable_thinking=False,
            tokenize=False,
        )
        for message in messages
    ]
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def plain_texts(tokenizer: "PreTrainedTokenizerBase", ids: Sequence[Tokens]) -> list[str]:
    """Text of each response without special tokens and with unchanged spaces."""
    return tokenizer.batch_decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
