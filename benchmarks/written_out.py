"""The steps of `cocal.companion.model` with forward and backward passes written out, to be compared with them.

All parameters lie in one buffer, and so do their gradients, so that a step allocates nothing for them. Weights, masks
and the order of every sum are those of `Training`; at widths that are powers of two, the learnt weights are bit-equal.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from cocal.companion.model import EPSILON, CompanionMLP, Dropout
from cocal.companion.settings import CompanionSettings


class WrittenOut:
    """A replacement of `Training`, except that it does not write the learnt weights back into the model."""

    def __init__(self, model: CompanionMLP, settings: CompanionSettings):
        self._dropout = Dropout(model.initialise(), settings.widths, settings.dropout, model.device)
        self._by_target = model.targets, len(model.seeds)
        started = [
            tensor.detach()
            for pair in (*zip(model.linears, model.norms, strict=True), (model.output,))
            for module in pair
            for tensor in module.parameters()
        ]
        whole = nn.Parameter(torch.cat([tensor.flatten() for tensor in started]))
        whole.grad = torch.zeros_like(whole)
        self._optimiser = torch.optim.Adam([whole], lr=settings.learning_rate, fused=True)
        values, gradients = (
            [part.view(one.shape) for part, one in zip(flat.split([t.numel() for t in started]), started, strict=True)]
            for flat in (whole.detach(), whole.grad)
        )
        # Each linear layer and each normalisation has a weight, a bias, and the gradients of both.
        paired = [
            (values[k], values[k + 1][:, :, None], gradients[k], gradients[k + 1]) for k in range(0, len(values), 2)
        ]
        self._layers = list(zip(paired[:-1:2], paired[1::2], strict=True))
        self._output = paired[-1]

    @torch.inference_mode()
    def run(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
        """Run one pass of gradient steps and return the mean loss per member, float64 (members,)."""
        total, count = 0, 0
        for features, wanted in batches:
            total += self._step(features, wanted, self._dropout.draw(len(features)))
            count += len(features)
        return total.flatten() / count

    def _step(self, features: Tensor, wanted: Tensor, masks: list[Tensor]) -> Tensor:
        """Run one gradient step and return the summed squared errors (targets, seeds)."""
        count, hidden, kept = len(features), features.float().T, []
        for place, (linear, (weight, bias, *_)) in enumerate(self._layers):
            normal = _product(linear, hidden)
            share = 1 / normal.shape[1]
            normal.sub_(normal.sum(1, keepdim=True).mul_(share))
            scale = (normal * normal).sum(1, keepdim=True).mul_(share).add_(EPSILON).rsqrt_()
            scaled = (normal.mul_(scale) * weight[:, :, None]).add_(bias)
            kept.append((hidden, normal, scale, scaled))
            hidden = functional.gelu(scaled)
            self._drop_(hidden, masks[place : place + 1])
        confidence = _product(self._output, hidden).sigmoid_().view(*self._by_target, count)
        error = confidence - wanted
        squared = (error * error).sum(2).double()
        gradient = torch.ops.aten.sigmoid_backward(error.mul_(2 / count), confidence).view(-1, 1, count)
        _weight_gradients(self._output, hidden, gradient)
        above = self._output[0]
        for place in reversed(range(len(kept))):
            linear, (weight, _, weight_gradient, bias_gradient) = self._layers[place]
            hidden, normal, scale, scaled = kept[place]
            gradient = torch.bmm(above.mT, gradient)
            self._drop_(gradient, masks[place : place + 1])
            gradient = torch.ops.aten.gelu_backward(gradient, scaled)
            along = gradient * normal
            torch.sum(along, 2, out=weight_gradient)
            torch.sum(gradient, 2, out=bias_gradient)
            # With g = weight x gradient: scale x (g - mean of g - normal x mean of (g x normal)), means over the units.
            row = weight[:, None] * (1 / normal.shape[1])
            normal.mul_(torch.bmm(row, along)).add_(torch.bmm(row, gradient))
            gradient = gradient.mul_(weight[:, :, None]).sub_(normal).mul_(scale)
            _weight_gradients(linear, hidden, gradient)
            above = linear[0]
        self._optimiser.step()
        return squared

    def _drop_(self, states: Tensor, mask: list[Tensor]) -> None:
        if mask:
            states.view(*self._by_target, *states.shape[1:]).mul_(mask[0])


def _product(linear: tuple[Tensor, ...], inputs: Tensor) -> Tensor:
    """Outputs (members, outputs, n) for inputs (members, inputs, n), or for inputs (inputs, n) that members share."""
    weight, bias, *_ = linear
    if inputs.ndim == 2:
        return torch.addmm(bias.flatten(0, 1), weight.flatten(0, 1), inputs).view(*bias.shape[:2], -1)
    return torch.baddbmm(bias, weight, inputs)


def _weight_gradients(linear: tuple[Tensor, ...], inputs: Tensor, gradient: Tensor) -> None:
    """Set the gradients of a linear layer's weight and bias from the gradient of its outputs."""
    *_, of_weight, of_bias = linear
    torch.sum(gradient, 2, out=of_bias)
    if inputs.ndim == 2:
        torch.mm(gradient.flatten(0, 1), inputs.T, out=of_weight.flatten(0, 1))
    else:
        torch.bmm(gradient, inputs.mT, out=of_weight)
