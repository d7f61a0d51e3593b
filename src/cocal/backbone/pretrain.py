"""Pre-training of a tiny Qwen3 policy, with the loss on response tokens."""

import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from cocal.backbone.corpus import CorpusWriter, Document
from cocal.backbone.tokenizer import END_OF_TURN, train_tokenizer
from cocal.config.backbone import ArchitectureSettings, PretrainingSettings
from cocal.runtime.progress import Progress
from cocal.store import atomic_path, label_folder

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

_TOKENIZER_DOCUMENTS = 20_000
_BUCKET = 16
"""Number of batches that are drawn together and sorted by length, so that a batch holds little padding."""
_IGNORED = -100


def new_policy(shape: ArchitectureSettings, tokenizer: "PreTrainedTokenizerFast", seed: int) -> "Qwen3ForCausalLM":
    """A randomly initialised Qwen3 of this shape, with untied embeddings, in float32."""
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
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config)


def pretrain(settings: PretrainingSettings, writer: CorpusWriter, output: Path, attributes: Mapping[str, str]) -> None:
    """Train tokenizer and policy, and write a Hugging Face checkpoint folder atomically.

    Args:
        settings: Architecture, mixture and optimiser.
        writer: Writer that draws the corpus.
        output: Checkpoint folder.
        attributes: Provenance of the checkpoint.
    """
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
    batches = _batches(writer, tokenizer, settings.batch_size, settings.seed)
    size = sum(p.numel() for p in model.parameters())
    logging.info("pre-training %.2f M parameters for %d steps", size / 1e6, settings.steps)
    progress, started, tokens = Progress("step", settings.steps), time.monotonic(), 0
    for _ in range(settings.steps):
        ids, labels = next(batches)
        loss = model(input_ids=ids, attention_mask=ids != tokenizer.pad_token_id, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimiser, schedule in zip(optimisers, schedules, strict=True):
            optimiser.step()
            schedule.step()
            optimiser.zero_grad()
        tokens += ids.numel()
        progress.add(detail=f"loss {loss.item():.3f}, {tokens / (time.monotonic() - started):.0f} tokens/s")
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    with atomic_path(output) as partial:
        model.eval().save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        label_folder(partial, attributes)


def _encode(tokenizer: "PreTrainedTokenizerFast", documents: list[Document]) -> list[tuple[list[int], list[int]]]:
    """Prompt ids and response ids (end of turn included) of each document."""
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": d.message}], add_generation_prompt=True, tokenize=False
        )
        for d in documents
    ]
    responses = [d.response + END_OF_TURN for d in documents]
    return list(zip(tokenizer(prompts)["input_ids"], tokenizer(responses)["input_ids"], strict=True))


def _batches(
    writer: CorpusWriter, tokenizer: "PreTrainedTokenizerFast", batch_size: int, seed: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless batches (ids, labels) of shape (batch_size, longest); the labels ignore prompts and padding."""
    order = torch.Generator().manual_seed(seed)
    while True:
        encoded = _encode(tokenizer, [writer.document() for _ in range(batch_size * _BUCKET)])
        encoded.sort(key=lambda pair: len(pair[0]) + len(pair[1]))
        for index in torch.randperm(_BUCKET, generator=order).tolist():
            part = encoded[index * batch_size : (index + 1) * batch_size]
            longest = max(len(prompt) + len(response) for prompt, response in part)
            ids = torch.full((batch_size, longest), tokenizer.pad_token_id)
            labels = torch.full((batch_size, longest), _IGNORED)
            for row, (prompt, response) in enumerate(part):
                end = len(prompt) + len(response)
                ids[row, :end] = torch.tensor(prompt + response)
                labels[row, len(prompt) : end] = torch.tensor(response)
            yield ids, labels
