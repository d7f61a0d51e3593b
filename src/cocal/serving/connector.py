"""The companion inside vLLM: it turns what the engine has computed into confidences."""

from typing import Any

import torch
from torch import Tensor

from cocal.confidence import saved
from cocal.engines.states_connector import StatesConnector
from cocal.serving.estimates import Estimator
from cocal.serving.scoring import CONFIDENCES


class CompanionConnector(StatesConnector):
    """vLLM's KV connector that hands out the confidences of all members.

    `kv_connector_extra_config` names the companion's folder as `companion`.
    """

    name = CONFIDENCES

    def load(self, extra: dict[str, Any], device: torch.device) -> None:
        companions, config, _ = saved.read(extra["companion"])
        self.poolings, self.reads_tokens = config.spec.poolings, config.token_probability
        self._estimator = Estimator(companions, config, extra.get("target"), device)

    def read(self, states: Tensor, tokens: Tensor | None) -> Tensor:
        return self._estimator.members(states, tokens)

    def told(self, rows: Tensor) -> list[list[float]]:
        return rows.tolist()  # arrays would not reach the server's process

    def so_far(self, row: list[float]) -> float:
        return self._estimator.mean(row)
