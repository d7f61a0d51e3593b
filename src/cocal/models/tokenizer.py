"""A byte-level BPE tokenizer with Qwen's chat markers; every number of one or two digits is a token."""

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

END_OF_TURN = "<|im_end|>"
_START_OF_TURN = "<|im_start|>"
_PADDING = "<|endoftext|>"
_SEEN = 2_000
"""How often the tokenizer sees each number of two digits, so that all of them become tokens."""
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def train_tokenizer(texts: Iterable[str], vocabulary: int, max_length: int) -> "PreTrainedTokenizerFast":
    """Train a tokenizer on `texts` with exactly `vocabulary` entries.

    Raises:
        ValueError: if the texts are too uniform to give that many entries.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    # numbers of one or two digits, words with their leading blank and with the blank before a number, runs of other
    # characters, single blanks
    pattern = Regex(r"\d{1,2}| ?[A-Za-z]+(?: (?=\d))?| ?[^\sA-Za-z\d]+|\s")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(pattern, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[_PADDING, _START_OF_TURN, END_OF_TURN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    numbers = (str(number) for number in range(10, 100) for _ in range(_SEEN))
    tokenizer.train_from_iterator(chain(texts, numbers), trainer)
    if tokenizer.get_vocab_size() != vocabulary:
        raise ValueError(f"the corpus gives {tokenizer.get_vocab_size()} tokens, not {vocabulary}")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END_OF_TURN,
        pad_token=_PADDING,
        chat_template=CHAT_TEMPLATE,
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
    )
