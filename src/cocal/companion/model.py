"""Several independent companions (equation 3) in one module, stacked along the first dimension, and their training.

Each member equals a plain PyTorch model with linear -> LayerNorm -> GELU -> dropout at each hidden layer and linear ->
sigmoid at the output (appendix A.1). Members share only the features, so the loss of one has no gradient in another.

Hidden states have the shape (members, units, n), so that the first layer of all members is one large matrix product.
Gradient steps (equation 4) are computed by autograd. Hand-written steps take 0.7 of the time at embedded widths, and
would save up to a sixth of it at paper widths on a processor and nothing on a GPU (`benchmarks/companions.py`).
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from cocal.companion.settings import CompanionSettings
from cocal.runtime.graphs import Recorded, recorded

EPSILON = 1e-5
"""The default epsilon of `torch.nn.LayerNorm`."""
MEAN, SCALE = "input_mean", "input_scale"
"""Names of the mean and scale that standardise inputs, float32 (inputs,), among the weights of a companion."""


@contextmanager
def matmul_precision(precision: Literal["float32", "tf32"]) -> Iterator[None]:
    """Set the precision of float32 matrix products on a GPU within the context (`companion.matmul`)."""
    products = torch.backends.cuda.matmul
    before = products.fp32_precision
    products.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    try:
        yield
    finally:
        products.fp32_precision = before


class StackedLinear(nn.Module):
    """One `torch.nn.Linear` per member, from (members, inputs, n) or a shared (inputs, n) to (members, outputs, n)."""

    def __init__(self, members: int, inputs: int, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(members, outputs, inputs))
        self.bias = nn.Parameter(torch.empty(members, outputs))

    def forward(self, hidden: Tensor) -> Tensor:
        if hidden.ndim == 2:
            together = torch.addmm(self.bias.flatten()[:, None], self.weight.flatten(0, 1), hidden)
            return together.unflatten(0, self.bias.shape)
        return torch.baddbmm(self.bias[:, :, None], self.weight, hidden)

    @torch.no_grad()
    def initialise(self, members: slice, generator: torch.Generator) -> None:
        """Draw the weights on the CPU as `torch.nn.Linear` does and give the same ones to all `members`."""
        weight, bias = torch.empty(self.weight.shape[1:]), torch.empty(self.bias.shape[1:])
        nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
        bound = 1 / math.sqrt(weight.shape[1])
        nn.init.uniform_(bias, -bound, bound, generator=generator)
        self.weight[members], self.bias[members] = weight, bias


class StackedLayerNorm(nn.Module):
    """One `torch.nn.LayerNorm` per member over the units of (members, width, n)."""

    def __init__(self, members: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(members, width))
        self.bias = nn.Parameter(torch.zeros(members, width))

    def forward(self, hidden: Tensor) -> Tensor:
        return _LayerNorm.apply(hidden, self.weight, self.bias)


class _LayerNorm(torch.autograd.Function):
    """Normalises over the second dimension, whereas PyTorch's LayerNorm needs the last dimensions. Its own backward
    pass saves three tensors; autograd would save one for every operation."""

    @staticmethod
    def forward(ctx, hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        normal = hidden - hidden.mean(1, keepdim=True)
        scale = (normal * normal).mean(1, keepdim=True).add_(EPSILON).rsqrt_()
        normal.mul_(scale)
        ctx.save_for_backward(normal, scale, weight)
        return (normal * weight[:, :, None]).add_(bias[:, :, None])

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # scale x (g - mean(g) - normal x mean(g x normal)) with g = weight x gradient and means over the units
        normal, scale, weight = ctx.saved_tensors
        along = gradient * normal
        row = weight[:, None] / weight.shape[1]
        with matmul_precision("float32"):  # these products are means, which the plain LayerNorm never rounds
            means = (normal * torch.bmm(row, along)).add_(torch.bmm(row, gradient))
        before = (gradient * weight[:, :, None]).sub_(means).mul_(scale)
        return before, along.sum(2), gradient.sum(2)


class CompanionMLP(nn.Module):
    """Companions that see the same features in the same order.

    Args:
        inputs: Width of the features.
        widths: Widths of the hidden layers.
        seeds: Seeds of the initialisation.
        targets: Number of targets. Member t * len(seeds) + s has target t and seed s.
        standardised: Whether the module subtracts a mean from every input and divides it by a scale, which are saved
            with its weights and never trained. The paper's companions do not.
    """

    input_mean: Tensor
    input_scale: Tensor

    def __init__(
        self, inputs: int, widths: Sequence[int], seeds: Sequence[int], targets: int, standardised: bool = False
    ):
        super().__init__()
        self.standardised = standardised
        if standardised:
            self.register_buffer(MEAN, torch.zeros(inputs))
            self.register_buffer(SCALE, torch.ones(inputs))
        self.seeds = tuple(seeds)
        self.targets = targets
        sizes = (inputs, *widths)
        self.linears = nn.ModuleList(StackedLinear(self.members, *pair) for pair in pairwise(sizes))
        self.norms = nn.ModuleList(StackedLayerNorm(self.members, width) for width in widths)
        self.output = StackedLinear(self.members, sizes[-1], 1)

    @property
    def members(self) -> int:
        """Number of companions."""
        return self.targets * len(self.seeds)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.output.weight.device

    def initialise(self) -> list[torch.Generator]:
        """Draw each member's weights as a plain PyTorch model does after `torch.manual_seed(seed)`, equal ones for
        equal seeds. Return each seed's generator in the state that plain PyTorch's has after building the model."""
        generators = [torch.Generator().manual_seed(seed) for seed in self.seeds]
        for place, generator in enumerate(generators):
            layers: list[Any] = [*self.linears, self.output]
            for layer in layers:
                layer.initialise(slice(place, None, len(self.seeds)), generator)
        return generators

    def forward(self, features: Tensor, masks: Sequence[Tensor] = ()) -> Tensor:
        """The confidences of n responses, float32 (members, n) in [0, 1].

        Args:
            features: (n, inputs), of any float format.
            masks: Dropout factors (seeds, width, n) of the first hidden layers; layers without factors drop no unit.
        """
        hidden = features.float()
        if self.standardised:
            hidden = (hidden - self.input_mean) / self.input_scale
        hidden = hidden.T
        for place, (linear, norm) in enumerate(zip(self.linears, self.norms, strict=True)):
            hidden = functional.gelu(norm(linear(hidden)))
            if place < len(masks):
                hidden = (hidden.unflatten(0, (self.targets, -1)) * masks[place]).flatten(0, 1)
        return torch.sigmoid(self.output(hidden).squeeze(1))


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
            generators = [torch.Generator(device).manual_seed(generator.initial_seed()) for generator in generators]
        self.generators = list(generators)
        self._layers = list(zip(widths, rates, strict=False))
        self._device = device

    def draw(self, count: int) -> list[Tensor]:
        """Draw each layer's factors, float32 (seeds, width, count): 0 with probability `rate`, else 1 / (1 - rate)."""
        masks = []
        for width, rate in self._layers:
            drawn = torch.empty(len(self.generators), count, width, device=self._device)
            for mask, generator in zip(drawn, self.generators, strict=True):
                mask.bernoulli_(1 - rate, generator=generator)
            masks.append(drawn.mT.contiguous().mul_(1 / (1 - rate) if rate < 1 else 0))
        return masks


class Training:
    """Trains all members of a new model together, each as if it were alone.

    Each member equals a plain PyTorch model that is built and trained after `torch.manual_seed(seed)`: it starts with
    the same weights and drops the same units (on a GPU, `Dropout` uses another stream), and Adam treats every weight
    separately. Training never waits for the device. On a GPU, steps of a whole batch may be recorded and replayed, so
    all of them have to be given tensors of the same form.

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
        self._batch_size = settings.batch_size
        self._recorded = Recorded(self._dropout.generators)

    def state(self) -> dict[str, Any]:
        """The state that training needs, beside the weights, to be resumed."""
        dropout = [generator.get_state() for generator in self._dropout.generators]
        return {"optimiser": self._optimiser.state_dict(), "dropout": dropout}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume training from the result of `state`."""
        self._optimiser.load_state_dict(state["optimiser"])
        for generator, saved in zip(self._dropout.generators, state["dropout"], strict=True):
            generator.set_state(saved.cpu())
        self._recorded = Recorded(self._dropout.generators)  # the optimiser has other tensors now

    def run(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
        """Run one pass of gradient steps and return each member's mean loss with dropout, float64 (members,).

        Each batch has features (n, inputs) of any float format and targets, float32 (targets, 1, n), on the device.
        """
        model, count = self._model, 0
        total = torch.zeros(model.targets, len(model.seeds), dtype=torch.float64, device=model.device)
        for features, targets in batches:
            total += self.step(features, targets).sum(2)
            count += len(features)
        return total.flatten() / count

    def step(self, features: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        """Take one gradient step and return the squared errors before it, float32 (targets, seeds, n).

        Args:
            features: (n, inputs), of any float format.
            targets: float32 (targets, 1, n) or (n,).
            weights: float32 (targets, 1, n), from 0 to 1, of each response in a target's mean; by default all are
                equal. Weights that sum to less than 1 count as if they summed to 1.
        """
        given = (features, targets) if weights is None else (features, targets, weights)
        whole = features.is_cuda and len(features) == self._batch_size and recorded()
        return self._recorded(self._step, *given) if whole else self._step(*given)

    def _step(self, features: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        model = self._model
        confidence = model(features, self._dropout.draw(len(features))).view(model.targets, len(model.seeds), -1)
        errors = (confidence - targets).square()
        means = errors.mean(2) if weights is None else (errors * weights).sum(2) / weights.sum(2).clamp(min=1)
        self._optimiser.zero_grad()
        means.sum().backward()  # each member gets the gradient of its own mean
        # Adam refuses a recording of which it is not told, and warns if it is told and there is none.
        (group,) = self._optimiser.param_groups
        group["capturable"] = features.is_cuda and torch.cuda.is_current_stream_capturing()
        self._optimiser.step()
        return errors.detach()
