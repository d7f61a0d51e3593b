"""Teacher-forced passes over exact token ids, which yield pooled states and raw log-probabilities of responses."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from cocal.features.capture import RESPONSE_POOLINGS, capture
from cocal.models.decoder import blocks_of, decoder_of
from cocal.models.text import Tokens


@dataclass(frozen=True)
class PooledBatch:
    """One batch of responses after its pass.

    Attributes:
        rows: int64 (batch,), indices of the responses.
        features: float32 (batch, layers, poolings, hidden), pooled states.
        logprobs: float32 (length,) raw log-probabilities for each response; None if they were not requested.
    """

    rows: np.ndarray
    features: np.ndarray
    logprobs: list[np.ndarray] | None


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
) -> Iterator[PooledBatch]:
    """Run the model over prompts followed by responses and yield pooled states batch by batch.

    The token ids are used unchanged; text is never tokenised again. Rows are padded at the end, where no earlier token
    attends, so no attention mask is needed and attention uses its fastest kernel. On a GPU a batch is yielded while
    the next one runs.

    Args:
        model: Causal language model, possibly wrapped for distributed training.
        prompts: Token ids of each prompt.
        responses: Token ids of each response, with the generated end-of-sequence token. A response may be empty if
            only the last prompt token is pooled.
        batches: Indices of the rows in each batch.
        layers: Zero-based block indices.
        pad: Padding token id.
        poolings: Names of the poolings; see `cocal.features.capture.capture`.
        unwrapped: The bare model, if `model` is wrapped.
        logprobs: If true, log-probabilities of the raw logits (temperature 1) come too; if not, no logits are computed.
    """
    options = {"layers": layers, "pad": pad, "poolings": poolings, "logprobs": logprobs}
    running = None
    for rows in batches:
        ids = [prompts[i] for i in rows], [responses[i] for i in rows]
        following = _start(model, unwrapped or model, np.asarray(rows), *ids, **options)
        if running is not None:
            yield running()
        running = following
    if running is not None:
        yield running()


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
) -> Callable[[], PooledBatch]:
    """Start one batch; the function returned waits for its end. On a GPU this waits for the previous batch alone, since
    transformers reads the positions on the CPU before the first block."""
    device = next(bare.parameters()).device
    begin = np.array([len(prompt) for prompt in prompts])
    end = begin + [len(response) for response in responses]
    padded = np.full((len(rows), end.max()), pad)
    for k, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        padded[k, : begin[k]] = prompt
        padded[k, begin[k] : end[k]] = response
    ids = _to_device(padded, device)
    values = None
    with capture(blocks_of(bare), layers, _to_device(begin, device), _to_device(end, device), poolings) as states:
        if logprobs:
            first = begin.min() - 1  # the shortest prompt's last token is the first that predicts a response token
            logits = model(input_ids=ids, use_cache=False, logits_to_keep=padded.shape[1] - int(first)).logits
            # Rows are converted one at a time: a float32 copy of all logits would be the pass's largest tensor.
            parts = [
                -cross_entropy(logits[k, b - 1 - first : e - 1 - first].float(), ids[k, b:e], reduction="none")
                for k, (b, e) in enumerate(zip(begin, end, strict=True))
            ]
            values = _to_host(torch.cat(parts))
        else:
            decoder_of(bare)(input_ids=ids, use_cache=False)
    features = _to_host(torch.stack([states[layer] for layer in layers], dim=1))
    done = torch.cuda.current_stream(device).record_event() if device.type == "cuda" else None

    def result() -> PooledBatch:
        if done is not None:
            done.synchronize()
        split = None if values is None else np.split(values.numpy(), np.cumsum(end - begin)[:-1])
        return PooledBatch(rows, features.numpy(), split)

    return result


def _to_device(values: np.ndarray, device: torch.device) -> torch.Tensor:
    found = torch.from_numpy(values)
    return found.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else found.to(device)


def _to_host(values: torch.Tensor) -> torch.Tensor:
    """Start a copy to host memory, which is complete once the device's stream has reached it."""
    if values.device.type != "cuda":
        return values.cpu()
    return torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(values, non_blocking=True)
