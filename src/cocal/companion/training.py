"""Gradient steps of stacked companions (equation 4), computed by autograd.

Without autograd, hand-written steps take 0.7 of the time at embedded widths. At paper widths they would only save the
allocation of the gradients, up to a sixth of the time on a processor and nothing on a GPU (`benchmarks/companions.py`).
CUDA graphs would save kernel launches, which are estimated to take less time than the float32 matrix products at paper
widths. Neither has been measured on a GPU.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cocal.companion.model import CompanionMLP
from cocal.config.evaluation import CompanionSettings


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
        self.generators = list(generators)
        self._layers = list(zip(widths, rates, strict=False))
        self._device = device

    def draw(self, count: int) -> list[Tensor]:
        """Draw each layer's factors, float32 (seeds, width, count): 0 with probability `rate`, else 1 / (1 - rate)."""
        masks = []
        for width, rate in self._layers:
            drawn = torch.empty(len(self.generators), count, width, device=self._device)
            for one, generator in zip(drawn, self.generators, strict=True):
                one.bernoulli_(1 - rate, generator=generator)
            masks.append(drawn.mT.contiguous().mul_(1 / (1 - rate) if rate < 1 else 0))
        return masks


class Training:
    """Trains all members of a new model together, each as if it were alone.

    Each member equals a plain PyTorch model that is built and trained after `torch.manual_seed(seed)`: it starts with
    the same weights and drops the same units (on a GPU, `Dropout` uses another stream), and Adam treats every weight
    separately. Training never waits for the device.

    Args:
        model: Model on the device to train on, which is initialised here.
        settings: Training settings.
    """

    def __init__(self, model: CompanionMLP, settings: CompanionSettings):
        self._model = model
        self._dropout = Dropout(model.initialise(), settings.widths, settings.dropout, model.device)
        self._optimiser = torch.optim.Adam(
            model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )

    def state(self) -> dict[str, Any]:
        """Return what training needs, beside the weights, to go on from here."""
        dropout = [generator.get_state() for generator in self._dropout.generators]
        return {"optimiser": self._optimiser.state_dict(), "dropout": dropout}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from the result of `state`."""
        self._optimiser.load_state_dict(state["optimiser"])
        for generator, one in zip(self._dropout.generators, state["dropout"], strict=True):
            generator.set_state(one.cpu())

    def run(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
        """Run one pass of gradient steps and return each member's mean loss with dropout, float64 (members,).

        Args:
            batches: Features (n, inputs) of any float format and targets float32 (targets, 1, n), on the device.
        """
        model, count = self._model, 0
        total = torch.zeros(model.targets, len(model.seeds), dtype=torch.float64, device=model.device)
        for features, targets in batches:
            confidence = model(features, self._dropout.draw(len(features)))
            errors = (confidence.view(*total.shape, -1) - targets).square()
            self._optimiser.zero_grad()
            errors.mean(2).sum().backward()  # each member gets the gradient of its own mean
            self._optimiser.step()
            total += errors.detach().sum(2)
            count += len(features)
        return total.flatten() / count
