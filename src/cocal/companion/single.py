"""One companion that scores one response at a time, with little overhead per call.

Each layer is three operations on plain tensors. At the embedded widths a plain PyTorch module takes about 1.8 times as
long for a prediction, mostly for the calls of its submodules.
"""

import torch
from torch import Tensor
from torch.nn import functional

from cocal.companion.companions import Companions


class SingleMember:
    """One member of stacked companions.

    Args:
        companions: Fitted companions.
        member: Index of the member.
        device: Device on which the member predicts.
    """

    def __init__(self, companions: Companions, member: int, device: torch.device):
        model = companions.model

        def own(weights: Tensor) -> Tensor:
            return weights[member].detach().to(device, copy=True)

        self._layers = [
            (own(linear.weight), own(linear.bias), own(norm.weight), own(norm.bias))
            for linear, norm in zip(model.linears, model.norms, strict=True)
        ]
        self._output = own(model.output.weight), own(model.output.bias)
        self._device = device

    @torch.inference_mode()
    def predict(self, features: Tensor) -> float:
        """Predict a confidence in [0, 1] from features float32 (1, inputs) on any device."""
        hidden = features.to(self._device)
        for weight, bias, scale, shift in self._layers:
            hidden = functional.linear(hidden, weight, bias)
            hidden = functional.gelu(functional.layer_norm(hidden, scale.shape, scale, shift))
        return torch.sigmoid(functional.linear(hidden, *self._output)).item()
