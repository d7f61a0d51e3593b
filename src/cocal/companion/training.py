"""Gradient steps of stacked companions (equation 4), by autograd.

Steps written out without autograd take 0.7 of the time at embedded widths. At paper widths they save the allocation of
the gradients, up to a sixth of the time on a processor, which a GPU does not spend (`benchmarks/companions.py`). CUDA
graphs would save the launching of kernels: at paper widths, with products in float32, that is estimated to take less
time than the products do. Neither has been measured on a GPU.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor

from cocal.companion.dropout import Dropout
from cocal.companion.model import CompanionMLP
from cocal.config.evaluation import CompanionSettings


class Training:
    """Trains all members of a new model together, each as if it were alone.

    A member equals the plain PyTorch model that is built and trained after `torch.manual_seed(seed)`: it starts from
    the same weights, drops the same units (on a GPU: those of another stream, see `Dropout`), and Adam works weight by
    weight. Nothing waits for the device.

    Args:
        model: on the device to train on; it is initialised here.
        settings: how to train.
    """

    def __init__(self, model: CompanionMLP, settings: CompanionSettings):
        self._model = model
        self._dropout = Dropout(model.initialise(), settings.widths, settings.dropout, model.device)
        self._optimiser = torch.optim.Adam(
            model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )

    def run(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
        """One pass of gradient steps; mean loss per member, with dropout, float64 (members,) on the device.

        Args:
            batches: features (n, inputs), of any float format, and what to learn, float32 (targets, 1, n); on the
                device.
        """
        model, count = self._model, 0
        total = torch.zeros(model.targets, len(model.seeds), dtype=torch.float64, device=model.device)
        for features, wanted in batches:
            confidence = model(features, self._dropout.draw(len(features)))
            errors = (confidence.view(*total.shape, -1) - wanted).square()
            self._optimiser.zero_grad()
            errors.mean(2).sum().backward()  # the sum has, in each member, the gradient of its own mean
            self._optimiser.step()
            total += errors.detach().sum(2)
            count += len(features)
        return total.flatten() / count


@contextmanager
def matmul_precision(precision: Literal["float32", "tf32"]) -> Iterator[None]:
    """Precision of products of float32 on a GPU within the context."""
    products = torch.backends.cuda.matmul
    before = products.fp32_precision
    products.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    try:
        yield
    finally:
        products.fp32_precision = before
