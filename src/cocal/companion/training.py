"""Gradient steps of stacked companions (equation 4), computed by autograd.

Without autograd, hand-written steps take 0.7 of the time at embedded widths. At paper widths they would only save the
allocation of the gradients, up to a sixth of the time on a processor and nothing on a GPU (`benchmarks/companions.py`).
CUDA graphs would save kernel launches, which are estimated to take less time than the float32 matrix products at paper
widths. Neither has been measured on a GPU.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from cocal.companion.dropout import Dropout
from cocal.companion.model import CompanionMLP
from cocal.config.evaluation import CompanionSettings


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
        """What training needs, beside the weights, to go on from here."""
        return {"optimiser": self._optimiser.state_dict(), "dropout": self._dropout.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._optimiser.load_state_dict(state["optimiser"])
        self._dropout.restore(state["dropout"])

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
