"""Pooling hidden states inside the forward pass (equation 6), without keeping any layer's states."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import nn

RESPONSE_POOLINGS = ("last", "mean")
"""Last response token || mean over the response (equation 6)."""
PROMPT = "prompt"
"""Pooling of its own: the last prompt token, before a response exists (appendix F.4)."""


def resolve_layers(layers: str | Sequence[int], blocks: int) -> tuple[int, ...]:
    """Zero-based block indices of a setting: "final", "all", or indices, to which the final block is added.

    Raises:
        ValueError: if an index is not a block of the model.
    """
    if layers == "final":
        return (blocks - 1,)
    if layers == "all":
        return tuple(range(blocks))
    outside = [layer for layer in layers if layer >= blocks]
    if outside:
        raise ValueError(f"layer {outside[0]} does not exist: the model has blocks 0 to {blocks - 1}")
    return tuple(sorted({*layers, blocks - 1}))


@dataclass
class PooledStates:
    """States of one batch, filled during the forward pass.

    Attributes:
        layers: zero-based block indices.
        pooled: block index -> float32 tensor (batch, poolings, hidden).
    """

    layers: tuple[int, ...]
    pooled: dict[int, torch.Tensor] = field(default_factory=dict)

    def stacked(self) -> torch.Tensor:
        """Tensor (batch, layers, poolings, hidden), float32."""
        return torch.stack([self.pooled[layer] for layer in self.layers], dim=1)


@contextmanager
def capture(
    model: nn.Module,
    layers: Sequence[int],
    prompt_length: int,
    response_mask: torch.Tensor,
    poolings: Sequence[str] = RESPONSE_POOLINGS,
) -> Iterator[PooledStates]:
    """Pool the outputs of transformer blocks while the block runs.

    The output of the last block is the state before the final RMSNorm (appendix A.1); transformers'
    `hidden_states[-1]` is taken after it and would be another quantity.

    Args:
        model: a decoder whose blocks are `model.model.layers` (unwrapped).
        layers: zero-based block indices.
        prompt_length: padded length of the prompts, which end side by side.
        response_mask: bool (batch, length), True on response tokens, the end-of-sequence token included. Every row
            has at least one, unless the last prompt token alone is asked for.
        poolings: of "last", "mean" and "prompt", in this order of the states.
    """
    rows = torch.arange(len(response_mask), device=response_mask.device)
    positions = torch.arange(response_mask.shape[1], device=response_mask.device)
    last = (response_mask * positions).argmax(dim=1)
    weights = response_mask.float() / response_mask.sum(dim=1, keepdim=True)
    pool: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "last": lambda hidden: hidden[rows, last].float(),
        "mean": lambda hidden: torch.einsum("bt,bth->bh", weights, hidden.float()),
        PROMPT: lambda hidden: hidden[:, prompt_length - 1].float(),
    }
    states = PooledStates(tuple(layers))

    def hook_for(layer: int):
        def hook(_module: nn.Module, _inputs: tuple, output: torch.Tensor | tuple) -> None:
            hidden = output[0] if isinstance(output, tuple) else output
            states.pooled[layer] = torch.stack([pool[name](hidden) for name in poolings], dim=1)

        return hook

    handles = [model.model.layers[layer].register_forward_hook(hook_for(layer)) for layer in states.layers]
    try:
        yield states
    finally:
        for handle in handles:
            handle.remove()
