"""The companion (equation 3): several independent ones in one module, stacked along the first dimension.

A member is a plain PyTorch model: at each hidden layer linear -> LayerNorm -> GELU -> dropout, at the output linear ->
sigmoid (appendix A.1). Members share the features and nothing else, so the loss of one has no gradient in another.

Hidden states run units by responses, (members, units, n). The first layer of all members is then one large product.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

EPSILON = 1e-5
"""Of `torch.nn.LayerNorm`."""


class StackedLinear(nn.Module):
    """One `torch.nn.Linear` per member: (members, inputs, n), or (inputs, n) for all alike -> (members, outputs, n)."""

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
        """Draw members, all alike, as `torch.nn.Linear` does, on the CPU wherever the weights are."""
        weight, bias = torch.empty(self.weight.shape[1:]), torch.empty(self.bias.shape[1:])
        nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
        bound = 1 / math.sqrt(weight.shape[1])
        nn.init.uniform_(bias, -bound, bound, generator=generator)
        self.weight[members], self.bias[members] = weight, bias


class StackedLayerNorm(nn.Module):
    """One `torch.nn.LayerNorm` per member, over the units: (members, width, n) -> (members, width, n)."""

    def __init__(self, members: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(members, width))
        self.bias = nn.Parameter(torch.zeros(members, width))

    def forward(self, hidden: Tensor) -> Tensor:
        return _LayerNorm.apply(hidden, self.weight, self.bias)


class _LayerNorm(torch.autograd.Function):
    """Normalisation over the units, of which PyTorch has none but over the last dimension.

    Its own gradient keeps three tensors where autograd would keep one an operation.
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
        """With g = weight x gradient: scale x (g - mean of g - normal x mean of (g x normal)), means over the units."""
        normal, scale, weight = ctx.saved_tensors
        along = gradient * normal
        row = weight[:, None] / weight.shape[1]
        means = (normal * torch.bmm(row, along)).add_(torch.bmm(row, gradient))
        before = (gradient * weight[:, :, None]).sub_(means).mul_(scale)
        return before, along.sum(2), gradient.sum(2)


class CompanionMLP(nn.Module):
    """Companions that see the same features in the same order.

    Args:
        inputs: width of the features.
        widths: of the hidden layers.
        seeds: of the initialisation.
        targets: members of each seed, which learn different things. Member t * len(seeds) + s has seed s.
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
        """Of the weights."""
        return self.output.weight.device

    def initialise(self) -> list[torch.Generator]:
        """Draw all weights, those of a member as the plain PyTorch model does after `torch.manual_seed(seed)`.

        Members of equal seed start equal.

        Returns:
            The generator of each seed, where plain PyTorch's stands after building the model.
        """
        generators = [torch.Generator().manual_seed(seed) for seed in self.seeds]
        for place, generator in enumerate(generators):
            for layer in (*self.linears, self.output):
                layer.initialise(slice(place, None, len(self.seeds)), generator)
        return generators

    def forward(self, features: Tensor, masks: Sequence[Tensor] = ()) -> Tensor:
        """Confidences of n responses, float32 (members, n) in [0, 1].

        Args:
            features: of any float format (n, inputs).
            masks: dropout factors (seeds, width, n) of the first hidden layers; without them no unit is dropped.
        """
        hidden = features.float().T
        for place, (linear, norm) in enumerate(zip(self.linears, self.norms, strict=True)):
            hidden = functional.gelu(norm(linear(hidden)))
            if place < len(masks):
                hidden = (hidden.unflatten(0, (self.targets, -1)) * masks[place]).flatten(0, 1)
        return torch.sigmoid(self.output(hidden).squeeze(1))
