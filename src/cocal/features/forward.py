"""Teacher-forced passes over exact token ids, which yield pooled states and raw log-probabilities of responses.

Hidden states are pooled inside the forward pass (equation 6), so that no layer's full states are kept.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from cocal.errors import ContractError
from cocal.models.loading import decoder_of, text_config
from cocal.models.text import Tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel

RESPONSE_POOLINGS = ("last", "mean")
"""The poolings of a response: its last token, and the mean over its tokens (equation 6)."""
PROMPT = "prompt"
"""The pooling that takes the last prompt token, before a response exists (appendix F.4)."""
_TOKENS_PER_SLICE = 1024
"""Response tokens whose logits are computed at once."""
_TOKENS_PER_SUM = 256
"""Tokens per row that are summed at once; it bounds the float32 copy of bfloat16 states."""


def resolve_layers(layers: Literal["final", "all"] | Sequence[int], blocks: int) -> tuple[int, ...]:
    """Return the zero-based block indices for "final", "all", or a list of indices, which gets the final block too.
    Raises a ValueError if the model has no block of that index."""
    if layers == "final":
        return (blocks - 1,)
    if layers == "all":
        return tuple(range(blocks))
    outside = [layer for layer in layers if layer >= blocks]
    if outside:
        raise ValueError(f"layer {outside[0]} does not exist: the model has blocks 0 to {blocks - 1}")
    return tuple(sorted({*layers, blocks - 1}))


@contextmanager
def capture(
    blocks: nn.ModuleList,
    layers: Sequence[int],
    begin: torch.Tensor,
    end: torch.Tensor,
    poolings: Sequence[str] = RESPONSE_POOLINGS,
    until: torch.Tensor | None = None,
) -> Iterator[dict[int, torch.Tensor]]:
    """Pool the outputs of transformer blocks in the forward passes inside the `with` statement.

    The output of the last block is the state before the final RMSNorm (appendix A.1). The `hidden_states[-1]` of
    transformers comes after that norm and is a different quantity.

    Args:
        blocks: The transformer blocks of an unwrapped model (`cocal.models.loading.decoder_of`).
        layers: Zero-based block indices.
        begin: int64 (batch,), position of each row's first response token, at least 1.
        end: int64 (batch,), position after each row's last response token, which may be the end-of-sequence token. It
            exceeds `begin` unless only the last prompt token is pooled.
        poolings: Names among "last", "mean" and "prompt"; the states are stacked in this order.
        until: int64 (batch, k), positions after the last tokens of k prefixes, whose states are pooled, too.

    Yields:
        The pooled states of the latest pass, float32 (batch, poolings, hidden), by block index; behind them, the
        last state and the mean of one prefix after the other.

    Raises:
        ContractError: in the forward pass, if a block gives something other than one state for each token.
    """
    rows = torch.arange(len(begin), device=begin.device)
    pool: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "last": lambda hidden: hidden[rows, end - 1].float(),
        "mean": lambda hidden: _mean(hidden, begin, end),
        PROMPT: lambda hidden: hidden[rows, begin - 1].float(),
    }
    states: dict[int, torch.Tensor] = {}

    def hook_for(layer: int):
        def hook(_module: nn.Module, _inputs: tuple, output: torch.Tensor | tuple) -> None:
            hidden = output[0] if isinstance(output, tuple) else output
            if hidden.ndim != 3 or len(hidden) != len(rows):
                raise ContractError(
                    f"{type(blocks[layer]).__name__}: the blocks of this architecture give states of shape "
                    f"{tuple(hidden.shape)} for {len(rows)} rows, and not one for each token; such models are not read"
                )
            with torch.autocast(hidden.device.type, enabled=False):  # the means stay float32 under autocast
                states[layer] = torch.stack([pool[name](hidden) for name in poolings], dim=1)
                if until is not None:
                    states[layer] = torch.cat([states[layer], _prefixes(hidden, begin, until)], dim=1)

        return hook

    handles = [blocks[layer].register_forward_hook(hook_for(layer)) for layer in layers]
    try:
        yield states
    finally:
        for handle in handles:
            handle.remove()


def _mean(hidden: torch.Tensor, begin: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
    """Return the means (batch, hidden) of (batch, length, hidden) over `begin` to `end`, summed in float32."""
    positions = torch.arange(hidden.shape[1], device=begin.device)
    weight = ((positions >= begin[:, None]) & (positions < end[:, None])).float() / (end - begin)[:, None]
    parts = zip(weight.split(_TOKENS_PER_SUM, dim=1), hidden.split(_TOKENS_PER_SUM, dim=1), strict=True)
    means = (torch.einsum("bt,bth->bh", share, states.float()) for share, states in parts)
    return sum(means)  # pyright: ignore[reportReturnType] (there is always a part, so that this is no 0)


def _prefixes(hidden: torch.Tensor, begin: torch.Tensor, until: torch.Tensor) -> torch.Tensor:
    """Return last states and means, float32 (batch, 2 k, hidden), of the tokens from `begin` to each of `until`."""
    total = hidden.new_zeros((*until.shape, hidden.shape[2]), dtype=torch.float32)
    for start in range(0, hidden.shape[1], _TOKENS_PER_SUM):
        states = hidden[:, start : start + _TOKENS_PER_SUM].float()
        at = torch.arange(start, start + states.shape[1], device=hidden.device)
        total += ((at >= begin[:, None, None]) & (at < until[:, :, None])).float() @ states
    last = hidden[torch.arange(len(until), device=until.device)[:, None], until - 1].float()
    return torch.stack([last, total / (until - begin[:, None])[:, :, None]], dim=2).flatten(1, 2)


class Prefixes(NamedTuple):
    """Prefixes of responses, whose states come from the same passes as those of the whole responses.

    Attributes:
        lengths: Numbers of tokens of the prefixes of each response, int64 (k,), from 1 to its length.
        take: Function that is called with the index of each response, the states of its prefixes, float32 (k, layers,
            2, hidden), the last state and the mean, and the response's log-probabilities (None if they were not
            requested), as soon as they are there; nothing else keeps the states.
    """

    lengths: Sequence[np.ndarray]
    take: Callable[[int, np.ndarray, np.ndarray | None], None]


class Pooled(NamedTuple):
    """The results of forward passes over n responses, in their order.

    Attributes:
        features: float32 (n, layers, poolings, hidden), pooled states.
        logprobs: float32 (length,) raw log-probabilities for each response; None if they were not requested.
    """

    features: np.ndarray
    logprobs: list[np.ndarray] | None


@torch.no_grad()
def score(
    model: "PreTrainedModel",
    prompts: Sequence[Tokens],
    responses: Sequence[Tokens],
    batches: Iterable[np.ndarray],
    *,
    layers: Sequence[int],
    pad: int,
    poolings: Sequence[str] = RESPONSE_POOLINGS,
    unwrapped: "PreTrainedModel | None" = None,
    logprobs: bool | Literal["sliced"] = False,
    prefixes: Prefixes | None = None,
) -> Pooled:
    """Run the model over prompts followed by responses, batch by batch.

    The token ids are used unchanged. Rows are padded at the end, where no earlier token attends, so attention needs no
    mask and uses its fastest kernel. On a GPU the results of a batch are taken while the next one runs.

    Args:
        model: Causal language model, possibly wrapped for distributed training.
        responses: Token ids with the generated end-of-sequence token; none if only the last prompt token is pooled.
        batches: Indices of the rows in each batch, which together hold every row once.
        layers: Zero-based block indices.
        poolings: Names of the poolings; see `capture`.
        unwrapped: The unwrapped model, if `model` may be wrapped.
        logprobs: If true, log-probabilities of the raw logits (temperature 1) come too; if not, no logits are computed,
            or those of a row's last token alone. If "sliced", the output layer is applied to the states of the response
            tokens alone, some at a time, which is equivalent if `output_is_plain`.
        prefixes: Prefixes that are pooled, too.
    """
    bare = unwrapped or model
    options = {"layers": layers, "pad": pad, "poolings": poolings, "logprobs": logprobs}
    options["whole"] = unwrapped is not None  # only the whole model gathers weights that are sharded
    shape = (len(prompts), len(layers), len(poolings), text_config(bare.config).hidden_size)
    pooled = Pooled(np.empty(shape, dtype=np.float32), [np.empty(0)] * len(prompts) if logprobs else None)
    running = None
    for rows in chain(batches, [None]):
        following = None
        if rows is not None:
            ids = [prompts[i] for i in rows], [responses[i] for i in rows]
            lengths = [prefixes.lengths[i] for i in rows] if prefixes else None
            following = rows, _start(model, bare, *ids, lengths, **options)
        if running is not None:
            passed, wait = running
            states, values = wait()
            pooled.features[passed] = states[:, :, : len(poolings)]
            if prefixes is not None:
                for k, row in enumerate(passed):
                    grown = states[k, :, len(poolings) :].reshape(len(layers), -1, 2, shape[-1]).swapaxes(0, 1)
                    prefixes.take(int(row), grown[: len(prefixes.lengths[row])], values[k] if logprobs else None)
            if pooled.logprobs is not None:
                for row, value in zip(passed, values, strict=True):
                    pooled.logprobs[row] = value
        running = following
    return pooled


@torch.no_grad()
def output_is_plain(model: "PreTrainedModel", tokens: Tokens) -> bool:
    """Whether a model's logits are simply its output layer's values of the decoder's states, tested on some ids; some
    architectures scale or cap them."""
    ids = _to_device(np.asarray(tokens)[None, -64:].astype(np.int64), next(model.parameters()).device)
    decoder, _ = decoder_of(model)
    if model.get_output_embeddings() is None:
        return False
    own = model.get_output_embeddings()(decoder(input_ids=ids, use_cache=False).last_hidden_state)
    return torch.allclose(own.float(), model(input_ids=ids, use_cache=False).logits.float(), rtol=1e-2, atol=1e-2)


def _start(
    model: "PreTrainedModel",
    bare: "PreTrainedModel",
    prompts: Sequence[Tokens],
    responses: Sequence[Tokens],
    prefixes: Sequence[np.ndarray] | None,
    *,
    layers: Sequence[int],
    pad: int,
    poolings: Sequence[str],
    logprobs: bool | Literal["sliced"],
    whole: bool,
) -> Callable[[], tuple[np.ndarray, list[np.ndarray]]]:
    """Start one batch; the function returned waits for its end, and returns its states and log-probabilities.

    On a GPU this waits for the previous batch alone, since transformers reads the positions on the CPU before the first
    block.
    """
    device = next(bare.parameters()).device
    begin = np.array([len(prompt) for prompt in prompts])
    end = begin + [len(response) for response in responses]
    padded = np.full((len(prompts), end.max()), pad)
    for k, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        padded[k, : begin[k]] = prompt
        padded[k, begin[k] : end[k]] = response
    ids = _to_device(padded, device)
    until = None
    if prefixes is not None:
        places = np.repeat(end[:, None], max(map(len, prefixes)), axis=1)
        for k, lengths in enumerate(prefixes):
            places[k, : len(lengths)] = begin[k] + lengths
        until = _to_device(places, device)
    values = None
    decoder, blocks = decoder_of(bare)
    output_layer = bare.get_output_embeddings()
    with capture(blocks, layers, _to_device(begin, device), _to_device(end, device), poolings, until) as states:
        if logprobs == "sliced":
            last = decoder(input_ids=ids, use_cache=False).last_hidden_state
            places = [(k, at) for k, (b, e) in enumerate(zip(begin, end, strict=True)) for at in range(b, e)]
            row, at = _to_device(np.array(places).T, device)
            parts = [
                -cross_entropy(output_layer(last[some, there - 1]).float(), ids[some, there], reduction="none")
                for some, there in zip(row.split(_TOKENS_PER_SLICE), at.split(_TOKENS_PER_SLICE), strict=True)
            ]
            values = _to_host(torch.cat(parts))
        elif logprobs:
            first = begin.min() - 1  # the shortest prompt's last token is the first that predicts a response token
            logits = model(input_ids=ids, use_cache=False, logits_to_keep=padded.shape[1] - int(first)).logits
            # Rows are converted one at a time: a float32 copy of all logits would be the pass's largest tensor.
            parts = [
                -cross_entropy(logits[k, b - 1 - first : e - 1 - first].float(), ids[k, b:e], reduction="none")
                for k, (b, e) in enumerate(zip(begin, end, strict=True))
            ]
            values = _to_host(torch.cat(parts))
        elif whole:
            model(input_ids=ids, use_cache=False, logits_to_keep=1)
        else:
            decoder(input_ids=ids, use_cache=False)
    features = _to_host(torch.stack([states[layer] for layer in layers], dim=1))
    done = torch.cuda.current_stream(device).record_event() if device.type == "cuda" else None

    def result() -> tuple[np.ndarray, list[np.ndarray]]:
        if done is not None:
            done.synchronize()
        split = [] if values is None else np.split(values.numpy(), np.cumsum(end - begin)[:-1].tolist())
        return features.numpy(), split

    return result


def _to_device(values: np.ndarray, device: torch.device) -> torch.Tensor:
    tensor = torch.from_numpy(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def _to_host(values: torch.Tensor) -> torch.Tensor:
    """Start a copy to host memory, which is complete once the device's stream has reached it."""
    if values.device.type != "cuda":
        return values.cpu()
    return torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(values, non_blocking=True)
