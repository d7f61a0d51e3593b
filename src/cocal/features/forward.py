"""Teacher-forced passes over exact token ids: pooled states and raw log-probabilities of responses."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from cocal.checkpoints.text import Tokens
from cocal.features.capture import RESPONSE_POOLINGS, capture


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


def padded_tokens(lengths: Sequence[int], tokens: int) -> int:
    """Tokens, padding included, in the batches of `batches_of_tokens`."""
    return sum(len(batch) * max(lengths[i] for i in batch) for batch in batches_of_tokens(lengths, tokens))


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

    The ids are used as they are: text is never tokenised again. Rows are padded at their end alone, which no token
    before it attends to: no mask is needed, so attention takes its fastest kernel, and rows of similar length share
    a batch whatever part of it is prompt. On a GPU a batch is yielded while the next one runs.

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
    running = None
    for rows in batches:
        following = _start(
            model,
            bare,
            np.asarray(rows),
            [prompts[i] for i in rows],
            [responses[i] for i in rows],
            layers=layers,
            pad=pad,
            poolings=poolings,
            logprobs=logprobs,
        )
        if running is not None:
            yield running.result()
        running = following
    if running is not None:
        yield running.result()


@dataclass(frozen=True)
class _Running:
    """A batch that a GPU may still be at work on.

    Attributes:
        rows: indices of the responses.
        ends: where each response's log-probabilities end.
        features: on the host, as `Scored.features`.
        logprobs: on the host, of all responses one after another; None if not asked for.
        done: reached when both have arrived; None on a CPU.
    """

    rows: np.ndarray
    ends: np.ndarray
    features: torch.Tensor
    logprobs: torch.Tensor | None
    done: torch.cuda.Event | None

    def result(self) -> Scored:
        if self.done is not None:
            self.done.synchronize()
        split = None if self.logprobs is None else np.split(self.logprobs.numpy(), self.ends[:-1])
        return Scored(self.rows, self.features.numpy(), split)


def _start(
    model: nn.Module,
    bare: nn.Module,
    rows: np.ndarray,
    prompts: Sequence[Tokens],
    responses: Sequence[Tokens],
    *,
    layers: Sequence[int],
    pad: int,
    poolings: Sequence[str],
    logprobs: bool,
) -> _Running:
    """Queue one batch; on a GPU nothing here waits for it, though transformers, which looks at the positions before the
    first block, waits for the batch before."""
    device = next(bare.parameters()).device
    begin = np.array([len(prompt) for prompt in prompts])
    end = begin + [len(response) for response in responses]
    padded = np.full((len(rows), end.max()), pad)
    for k, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        padded[k, : begin[k]] = prompt
        padded[k, begin[k] : end[k]] = response
    ids = _to_device(padded, device)
    values = None
    with capture(bare, layers, _to_device(begin, device), _to_device(end, device), poolings) as states:
        if logprobs:
            first = begin.min() - 1  # the last token of the shortest prompt: the earliest one that predicts an answer
            logits = model(input_ids=ids, use_cache=False, logits_to_keep=padded.shape[1] - int(first)).logits
            # row by row: a float32 copy of all logits would be the largest tensor of the pass
            parts = [
                -cross_entropy(logits[k, b - 1 - first : e - 1 - first].float(), ids[k, b:e], reduction="none")
                for k, (b, e) in enumerate(zip(begin, end, strict=True))
            ]
            values = _to_host(torch.cat(parts))
        else:
            bare.model(input_ids=ids, use_cache=False)
    features = _to_host(states.stacked())
    done = torch.cuda.current_stream(device).record_event() if device.type == "cuda" else None
    return _Running(rows, np.cumsum(end - begin), features, values, done)


def _to_device(values: np.ndarray, device: torch.device) -> torch.Tensor:
    found = torch.from_numpy(values)
    return found.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else found.to(device)


def _to_host(values: torch.Tensor) -> torch.Tensor:
    """A copy that is complete when the device's stream has come to it."""
    if values.device.type != "cuda":
        return values.cpu()
    return torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(values, non_blocking=True)
