"""Teacher-forced passes over exact token ids: pooled states and raw log-probabilities of responses."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from cocal.features.capture import RESPONSE_POOLINGS, capture

Tokens = Sequence[int]


@dataclass(frozen=True)
class Scored:
    """One batch of scored responses.

    Attributes:
        rows: indices of the responses, int64 (batch,).
        features: float32 (batch, layers, poolings, hidden).
        logprobs: per response, float32 (length,) raw log-probabilities; None if not asked for.
    """

    rows: np.ndarray
    features: np.ndarray
    logprobs: list[np.ndarray] | None


def batches_of_rows(lengths: Sequence[int], rows: int) -> list[np.ndarray]:
    """Indices by rising length in batches of `rows`: as many batches for any lengths, as sharded models need."""
    order = np.argsort(lengths, kind="stable")
    return [order[start : start + rows] for start in range(0, len(order), rows)]


def batches_of_tokens(lengths: Sequence[int], tokens: int) -> list[np.ndarray]:
    """Indices by rising length in batches of at most `tokens` padded tokens (at least one row each)."""
    order = np.argsort(lengths, kind="stable")
    batches, start = [], 0
    for stop in range(1, len(order) + 1):
        if stop == len(order) or (stop + 1 - start) * lengths[order[stop]] > tokens:
            batches.append(order[start:stop])
            start = stop
    return batches


@torch.no_grad()
def score(
    model: nn.Module,
    prompts: Sequence[Tokens],
    responses: Sequence[Tokens],
    batches: Iterable[np.ndarray],
    *,
    layers: Sequence[int],
    pad: int,
    poolings: Sequence[str] = RESPONSE_POOLINGS,
    unwrapped: nn.Module | None = None,
    logprobs: bool = False,
) -> Iterator[Scored]:
    """Run the model over prompt + response and yield pooled states batch by batch.

    The ids are used as they are: text is never tokenised again. Prompts are padded on the left, responses on
    the right, so that all responses of a batch start at the same position.

    Args:
        model: causal language model, possibly wrapped for distributed training.
        prompts: token ids of each prompt.
        responses: token ids of each response, the generated end-of-sequence token included; may be empty where the
            last prompt token alone is pooled.
        batches: indices of each batch.
        layers: zero-based block indices.
        pad: padding token id.
        poolings: see `cocal.features.capture.capture`.
        unwrapped: the bare model, if `model` is wrapped.
        logprobs: also return log-probabilities from the raw logits (temperature 1); otherwise no logits are
            computed.
    """
    bare = model if unwrapped is None else unwrapped
    device = next(bare.parameters()).device
    for rows in batches:
        longest_prompt = max(len(prompts[i]) for i in rows)
        longest_response = max(len(responses[i]) for i in rows)
        ids = torch.full((len(rows), longest_prompt + longest_response), pad)
        real = torch.zeros_like(ids, dtype=torch.bool)
        for k, i in enumerate(rows):
            begin, end = longest_prompt - len(prompts[i]), longest_prompt + len(responses[i])
            ids[k, begin:longest_prompt] = torch.tensor(prompts[i])
            ids[k, longest_prompt:end] = torch.tensor(responses[i], dtype=torch.long)
            real[k, begin:end] = True
        ids, real = ids.to(device), real.to(device)
        response_mask = real.clone()
        response_mask[:, :longest_prompt] = False
        inputs = {
            "input_ids": ids,
            "attention_mask": real.long(),
            "position_ids": (real.long().cumsum(dim=1) - 1).clamp(min=0),
            "use_cache": False,
        }
        with capture(bare, layers, longest_prompt, response_mask, poolings) as states:
            if logprobs:
                logits = model(**inputs, logits_to_keep=longest_response + 1).logits
            else:
                bare.model(**inputs)
        values = None
        if logprobs:
            chosen = ids[:, longest_prompt:, None]
            logits = logits[:, :-1].float()
            raw = logits.gather(2, chosen)[..., 0] - logits.logsumexp(dim=2)
            raw = raw.cpu().numpy()
            values = [raw[k, : len(responses[i])] for k, i in enumerate(rows)]
        yield Scored(np.asarray(rows), states.stacked().cpu().numpy(), values)
