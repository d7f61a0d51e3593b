"""Hidden states are pooled inside the forward pass (equation 6), so that no layer's full states are kept."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from cocal.errors import ContractError

RESPONSE_POOLINGS = ("last", "mean")
"""The poolings of a response: its last token, and the mean over its tokens (equation 6)."""
PROMPT = "prompt"
"""The pooling that takes the last prompt token, before a response exists (appendix F.4)."""
_TOKENS_PER_SUM = 256
"""Tokens per row that are summed at once; it bounds the float32 copy of bfloat16 states."""


def resolve_layers(layers: str | Sequence[int], blocks: int) -> tuple[int, ...]:
    """Return the zero-based block indices for "final", "all", or a list of indices, which gets the final block too.

    Raises:
        ValueError: if the model has no block of that index.
    """
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
    blocks: Sequence[nn.Module],
    layers: Sequence[int],
    begin: torch.Tensor,
    end: torch.Tensor,
    poolings: Sequence[str] = RESPONSE_POOLINGS,
) -> Iterator[dict[int, torch.Tensor]]:
    """Pool the outputs of transformer blocks in the forward passes inside the `with` statement.

    The output of the last block is the state before the final RMSNorm (appendix A.1). The `hidden_states[-1]` of
    transformers comes after that norm and is a different quantity.

    Args:
        blocks: The transformer blocks of an unwrapped model (`cocal.models.decoder.blocks_of`).
        layers: Zero-based block indices.
        begin: int64 (batch,), position of each row's first response token, at least 1.
        end: int64 (batch,), position after each row's last response token, which may be the end-of-sequence token. It
            exceeds `begin` unless only the last prompt token is pooled.
        poolings: Names among "last", "mean" and "prompt"; the states are stacked in this order.

    Yields:
        The pooled states of the latest pass, float32 (batch, poolings, hidden), by block index.

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
    return sum(torch.einsum("bt,bth->bh", share, states.float()) for share, states in parts)
