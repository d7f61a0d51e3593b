"""Gradient steps of stacked companions (equation 4), written out: forward, backward and Adam without autograd.

The architecture is fixed, and at small widths autograd's bookkeeping and intermediate copies cost as much as the
arithmetic. What a step does is nothing but products, sums and elementwise work on the device.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from cocal.companion.dropout import Dropout
from cocal.companion.graphs import Replayed, called
from cocal.companion.model import CompanionMLP, StackedLayerNorm, StackedLinear, linear, normalise_
from cocal.config.evaluation import CompanionSettings


class Training:
    """Trains all members of a new model together, each as if it were alone.

    A member equals the plain PyTorch model that is built and trained after `torch.manual_seed(seed)`: it starts from
    the same weights, drops the same units (on a GPU: those of another stream, see `Dropout`), and Adam works weight by
    weight. All parameters lie in one buffer, and so do their gradients: Adam is one operation. Nothing waits for the
    device; on a GPU, full batches replay one CUDA graph.

    Args:
        model: on the device to train on; it is initialised here.
        settings: how to train.
    """

    def __init__(self, model: CompanionMLP, settings: CompanionSettings):
        cuda = model.device.type == "cuda"
        self._dropout = Dropout(model.initialise(), settings.widths, settings.dropout, model.device)
        self._optimiser = torch.optim.Adam(
            [_in_one_buffer(model)],
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=True,
            capturable=cuda,
        )
        self._layers = [
            (_Linear(layer), _LayerNorm(norm)) for layer, norm in zip(model.linears, model.norms, strict=True)
        ]
        self._output = _Linear(model.output)
        self._by_target = model.targets, len(model.seeds)
        self._batch_size = settings.batch_size
        self._total = torch.zeros(model.members, dtype=torch.float64, device=model.device)
        self._on_full_batch = Replayed() if cuda else called

    @torch.inference_mode()
    def run(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
        """One pass of gradient steps; mean loss per member, with dropout, float64 (members,) on the device.

        Args:
            batches: features (n, inputs), of any float format, and what to learn, float32 (targets, 1, n); on the
                device.
        """
        self._total.zero_()
        count = 0
        for features, wanted in batches:
            call = self._on_full_batch if len(features) == self._batch_size else called
            call(self._step, features, wanted, *self._dropout.draw(len(features)))
            count += len(features)
        return self._total / count

    def _step(self, features: Tensor, wanted: Tensor, *masks: Tensor) -> None:
        """One gradient step on a batch; adds the summed squared errors to the total."""
        count = len(features)
        hidden, kept = features.float().T, []
        for place, (layer, norm) in enumerate(self._layers):
            normal = layer.forward(hidden)
            scale = normalise_(normal)
            scaled = (normal * norm.weight).add_(norm.bias)
            kept.append((hidden, normal, scale, scaled))
            hidden = functional.gelu(scaled)
            if place < len(masks):
                self._drop_(hidden, masks[place])
        confidence = self._output.forward(hidden).sigmoid_().view(*self._by_target, count)
        error = confidence - wanted
        self._total += (error * error).sum(2).flatten()

        gradient = torch.ops.aten.sigmoid_backward(error.mul_(2 / count), confidence).view(-1, 1, count)
        self._output.backward(hidden, gradient)
        gradient = self._output.input_gradient(gradient)
        for place in reversed(range(len(kept))):
            layer, norm = self._layers[place]
            hidden, normal, scale, scaled = kept[place]
            if place < len(masks):
                self._drop_(gradient, masks[place])
            gradient = norm.backward(normal, scale, torch.ops.aten.gelu_backward(gradient, scaled))
            layer.backward(hidden, gradient)
            if place:
                gradient = layer.input_gradient(gradient)
        self._optimiser.step()

    def _drop_(self, states: Tensor, mask: Tensor) -> None:
        """Multiply states (members, width, n) by their seeds' factors."""
        states.view(*self._by_target, *states.shape[1:]).mul_(mask)


class _Linear:
    """Views of a layer's parameters and gradients, made once: in every step they would cost as much as using them."""

    def __init__(self, layer: StackedLinear):
        self._weight, self._bias = layer.weight.detach(), layer.bias.detach()[:, :, None]
        self._weight_gradient, self._bias_gradient = layer.weight.grad, layer.bias.grad
        self._transposed = self._weight.transpose(1, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return linear(self._weight, self._bias, inputs)

    def backward(self, inputs: Tensor, gradient: Tensor) -> None:
        """Gradients of weight and bias, for that of the outputs (members, outputs, n)."""
        torch.sum(gradient, 2, out=self._bias_gradient)
        if inputs.ndim == 2:
            torch.mm(gradient.flatten(0, 1), inputs.T, out=self._weight_gradient.flatten(0, 1))
        else:
            torch.bmm(gradient, inputs.transpose(1, 2), out=self._weight_gradient)

    def input_gradient(self, gradient: Tensor) -> Tensor:
        """That of the inputs (members, inputs, n), for that of the outputs."""
        return torch.bmm(self._transposed, gradient)


class _LayerNorm:
    """Views of a layer normalisation's parameters and gradients."""

    def __init__(self, layer: StackedLayerNorm):
        self.weight, self.bias = layer.weight.detach()[:, :, None], layer.bias.detach()[:, :, None]
        self._weight_gradient, self._bias_gradient = layer.weight.grad, layer.bias.grad
        self._row = layer.weight.detach()[:, None]

    def backward(self, normal: Tensor, scale: Tensor, gradient: Tensor) -> Tensor:
        """Gradients of weight and bias, for that of the outputs; returns that of the states before normalisation.

        Args:
            normal: normalised states; overwritten.
            scale: the factor that normalised them.
            gradient: overwritten.
        """
        along = gradient * normal
        torch.sum(along, 2, out=self._weight_gradient)
        torch.sum(gradient, 2, out=self._bias_gradient)
        # With g = weight x gradient: scale x (g - mean of g - normal x mean of (g x normal)), means over the units.
        row = self._row * (1 / normal.shape[1])
        normal.mul_(torch.bmm(row, along)).add_(torch.bmm(row, gradient))
        return gradient.mul_(self.weight).sub_(normal).mul_(scale)


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


def _in_one_buffer(model: CompanionMLP) -> nn.Parameter:
    """Lay all parameters of `model` into one, and their gradients into its gradient."""
    parameters = list(model.parameters())
    whole = nn.Parameter(torch.cat([parameter.detach().flatten() for parameter in parameters]))
    whole.grad = torch.zeros_like(whole)
    sizes = [parameter.numel() for parameter in parameters]
    pieces = zip(parameters, whole.detach().split(sizes), whole.grad.split(sizes), strict=True)
    for parameter, values, gradient in pieces:
        parameter.data = values.view_as(parameter)
        parameter.grad = gradient.view_as(parameter)
    return whole
