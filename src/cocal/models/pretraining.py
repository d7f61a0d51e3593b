"""Pre-training of a tiny Qwen3 policy and its tokenizer, with the loss on response tokens."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy

from cocal.config.backbone import ArchitectureSettings, PretrainingSettings
from cocal.models.attention import GROUPED
from cocal.models.corpus import CorpusWriter
from cocal.models.text import Tokens, batches_of_tokens, chat_ids
from cocal.runtime.progress import Progress
from cocal.store import atomic_path, label_folder

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

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
_TOKENIZER_DOCUMENTS = 5_000
_PART = 512
"""Number of tokens in one forward pass, padding included, whose activations stay in a processor's cache."""
_IGNORED = -100


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


def new_policy(shape: ArchitectureSettings, tokenizer: "PreTrainedTokenizerFast", seed: int) -> "Qwen3ForCausalLM":
    """A randomly initialised Qwen3 of this shape in float32."""
    from transformers import Qwen3Config, Qwen3ForCausalLM, set_seed

    set_seed(seed)
    config = Qwen3Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        head_dim=shape.head_dim,
        intermediate_size=shape.intermediate_size,
        max_position_embeddings=shape.max_length,
        tie_word_embeddings=shape.tied,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    model = Qwen3ForCausalLM(config)
    model.set_attn_implementation(GROUPED)
    return model


def pretrain(settings: PretrainingSettings, writer: CorpusWriter, output: Path, attributes: Mapping[str, str]) -> None:
    """Train tokenizer and policy, and write a Hugging Face checkpoint folder atomically."""
    from transformers import get_linear_schedule_with_warmup
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    sample = [writer.document() for _ in range(_TOKENIZER_DOCUMENTS)]
    shape = settings.architecture
    tokenizer = train_tokenizer((part for document in sample for part in document), shape.vocabulary, shape.max_length)
    model = new_policy(shape, tokenizer, settings.seed).train()
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    chosen = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    optimisers = (
        torch.optim.Muon(matrices, lr=settings.matrix_learning_rate, weight_decay=0.0),
        torch.optim.AdamW(others, lr=settings.learning_rate, weight_decay=0.0),
    )
    warmup = round(settings.warmup * settings.steps)
    schedules = [get_linear_schedule_with_warmup(o, warmup, settings.steps) for o in optimisers]
    size = sum(p.numel() for p in model.parameters())
    logging.info("pre-training %.2f M parameters for %d steps", size / 1e6, settings.steps)
    progress, started, tokens = Progress("step", settings.steps), time.monotonic(), 0
    for _ in range(settings.steps):
        documents = [writer.document() for _ in range(settings.batch_size)]
        prompts = chat_ids(tokenizer, [document.message for document in documents])
        responses = tokenizer([document.response + END_OF_TURN for document in documents])["input_ids"]
        batch = list(zip(prompts, responses, strict=True))
        counted = sum(len(response) for _, response in batch)
        loss = 0.0
        for ids, labels in _parts(batch, tokenizer.pad_token_id):
            part = _loss(model, ids, labels) / counted
            part.backward()
            loss += part.item()
            tokens += ids.numel()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimiser, schedule in zip(optimisers, schedules, strict=True):
            optimiser.step()
            schedule.step()
            optimiser.zero_grad()
        progress.add(detail=f"loss {loss:.3f}, {tokens / (time.monotonic() - started):.0f} tokens/s")
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    with atomic_path(output) as partial:
        model.eval().save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        label_folder(partial, attributes)


def _parts(batch: Sequence[tuple[Tokens, Tokens]], pad: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Parts (ids, labels) of a batch, each (rows, longest); the labels ignore prompts and padding.

    Documents of like length share a part, which then holds little padding. They must not share an update: updates by
    documents of one length, that is of one kind, take turns in pulling the weights to and fro.
    """
    lengths = [len(prompt) + len(response) for prompt, response in batch]
    for rows in batches_of_tokens(lengths, _PART):
        ids = torch.full((len(rows), max(lengths[row] for row in rows)), pad)
        labels = torch.full(ids.shape, _IGNORED)
        for place, row in enumerate(rows):
            prompt, response = batch[row]
            ids[place, : lengths[row]] = torch.tensor(prompt + response)
            labels[place, len(prompt) : lengths[row]] = torch.tensor(response)
        yield ids, labels


def _loss(model: "Qwen3ForCausalLM", ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Sum of the cross-entropies of all labelled tokens; logits are computed for these alone.

    Padding comes last, where no token before it attends, so attention needs no mask.
    """
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
    labels = labels[:, 1:]
    labelled = labels != _IGNORED
    return cross_entropy(model.lm_head(hidden[labelled]), labels[labelled], reduction="sum")
