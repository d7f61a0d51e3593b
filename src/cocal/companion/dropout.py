"""Dropout factors of stacked companions."""

from collections.abc import Sequence

import torch
from torch import Tensor


class Dropout:
    """Draws each seed's dropout factors; members with the same seed drop the same units.

    On the CPU, a plain PyTorch model draws the same factors after `torch.manual_seed(seed)` if it sees the same
    batches. On a GPU each seed has a generator on that device, whose stream differs, as it does in plain PyTorch.

    Args:
        generators: One generator for each seed, in its state after the initialisation.
        widths: Widths of the hidden layers.
        rates: Dropout rates after the first hidden layers, in order.
        device: Device of the factors.
    """

    def __init__(
        self,
        generators: Sequence[torch.Generator],
        widths: Sequence[int],
        rates: Sequence[float],
        device: torch.device,
    ):
        if device.type != "cpu":
            generators = [torch.Generator(device).manual_seed(one.initial_seed()) for one in generators]
        self._generators = list(generators)
        self._layers = list(zip(widths, rates, strict=False))
        self._device = device

    def state(self) -> list[Tensor]:
        """State of each seed's generator."""
        return [generator.get_state() for generator in self._generators]

    def restore(self, state: Sequence[Tensor]) -> None:
        """Go on from what `state` returned."""
        for generator, one in zip(self._generators, state, strict=True):
            generator.set_state(one.cpu())

    def draw(self, count: int) -> list[Tensor]:
        """Draw each layer's factors, float32 (seeds, width, count): 0 with probability `rate`, else 1 / (1 - rate)."""
        masks = []
        for width, rate in self._layers:
            drawn = torch.empty(len(self._generators), count, width, device=self._device)
            for one, generator in zip(drawn, self._generators, strict=True):
                one.bernoulli_(1 - rate, generator=generator)
            masks.append(drawn.mT.contiguous().mul_(1 / (1 - rate) if rate < 1 else 0))
        return masks
