"""Confidences of a companion, from the states that an engine has summed."""

from collections.abc import Sequence

import torch
from torch import Tensor

from cocal.companion.companions import Companions
from cocal.companion.settings import Target
from cocal.fitting.config import CompanionConfig


class Estimator:
    """A companion on the engine's device, which scores one target; None means the usual one."""

    def __init__(self, companions: Companions, config: CompanionConfig, target: Target | None, device: torch.device):
        self._model, self._about = companions.to(device).model, config
        self._chosen = config.spec.chosen(target)

    def members(self, states: Tensor, tokens: Tensor | None) -> Tensor:
        """The confidences of all members in n responses, float32 (n, members), from pooled states, float32 (n, layers,
        poolings, hidden), and token statistics, float32 (n, 3), if the companion reads them."""
        features = states.flatten(1)
        features = features.bfloat16().float() if self._about.states == "bfloat16" else features
        return self._model(features if tokens is None else torch.cat([features, tokens], 1)).T.contiguous()

    def mean(self, members: Sequence[float]) -> float:
        """The confidence in a response, from those of all members."""
        return sum(members[k] for k in self._chosen) / len(self._chosen)
