"""The companion inside vLLM: it turns the states that the engine has computed into confidences."""

from typing import Any

import torch
from torch import Tensor

from cocal.engines.states_connector import StatesConnector
from cocal.own_policy import saved
from cocal.serving.scoring import CONFIDENCES


class CompanionConnector(StatesConnector):
    """vLLM's KV connector that hands out the confidences of all members.

    `kv_connector_extra_config` names the companion's folder as `companion`.
    """

    name = CONFIDENCES
    reads_cut = False

    def load(self, extra: dict[str, Any], device: torch.device) -> None:
        companions, self._about = saved.read_for_vllm(extra["companion"])
        self.poolings = self._about.spec.poolings
        self._model = companions.to(device).model
        self._chosen = self._about.spec.chosen(extra.get("target"))

    def read(self, states: Tensor) -> Tensor:
        features = states.flatten(1)
        return self._model(features.bfloat16() if self._about.states == "bfloat16" else features).T.contiguous()

    def told(self, found: Tensor) -> list[list[float]]:
        return found.tolist()  # arrays would not reach the server's process

    def so_far(self, one: list[float]) -> float:
        return sum(one[k] for k in self._chosen) / len(self._chosen)
