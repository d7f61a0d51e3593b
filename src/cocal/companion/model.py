"""Several independent companions (equation 3) in one module, stacked along the first dimension.

Each member equals a plain PyTorch model with linear -> LayerNorm -> GELU -> dropout at each hidden layer and linear ->
sigmoid at the output (appendix A.1). Members share only the features, so the loss of one has no gradient in another.

Hidden states have the shape (members, units, n), so that the first layer of all members is one large matrix product.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

EPSILON = 1e-5
"""The default epsilon of `torch.nn.LayerNorm`."""


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
    """Normalises over the second dimension, whereas PyTorch's LayerNorm needs the last dimensions.

    Its own backward pass saves three tensors; autograd would save one for every operation.
    """

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
    """

    def __init__(self, inputs: int, widths: Sequence[int], seeds: Sequence[int], targets: int):
        super().__init__()
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
        """Draw each member's weights as a plain PyTorch model does after `torch.manual_seed(seed)`.

        Members with the same seed start with the same weights.

        Returns:
            The generator of each seed, in the state of plain PyTorch's generator after building the model.
        """
        generators = [torch.Generator().manual_seed(seed) for seed in self.seeds]
        for place, generator in enumerate(generators):
            for layer in (*self.linears, self.output):
                layer.initialise(slice(place, None, len(self.seeds)), generator)
        return generators

    def forward(self, features: Tensor, masks: Sequence[Tensor] = ()) -> Tensor:
        """Compute the confidences of n responses, float32 (members, n) in [0, 1].

        Args:
            features: (n, inputs), of any float format.
            masks: Dropout factors (seeds, width, n) of the first hidden layers; layers without factors drop no unit.
        """
        hidden = features.float().T
        for place, (linear, norm) in enumerate(zip(self.linears, self.norms, strict=True)):
            hidden = functional.gelu(norm(linear(hidden)))
            if place < len(masks):
                hidden = (hidden.unflatten(0, (self.targets, -1)) * masks[place]).flatten(0, 1)
        return torch.sigmoid(self.output(hidden).squeeze(1))
