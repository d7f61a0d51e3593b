"""Dropout factors of stacked companions."""

from collections.abc import Sequence

import torch
from torch import Tensor


class Dropout:
    """Draws each seed's dropout factors; members of one seed drop the same units.

    On the CPU the factors are those that plain PyTorch draws after `torch.manual_seed(seed)`, for the same batches of
    responses by units. On a GPU each seed has a generator of that device, which draws another stream, as plain PyTorch
    on a GPU does too.

    Args:
        generators: one a seed, where the initialisation left them.
        widths: of the hidden layers.
        rates: after the first hidden layers, in order.
        device: where the factors are wanted.
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

    def draw(self, count: int) -> list[Tensor]:
        """Factors float32 (seeds, width, count) of each layer with dropout: 0 by chance `rate`, else 1 / (1 - rate)."""
        masks = []
        for width, rate in self._layers:
            drawn = torch.empty(len(self._generators), count, width, device=self._device)
            for one, generator in zip(drawn, self._generators, strict=True):
                one.bernoulli_(1 - rate, generator=generator)
            masks.append(drawn.mT.contiguous().mul_(1 / (1 - rate) if rate < 1 else 0))
        return masks
