"""Whether vLLM samples from the policy that is trained: its log-probabilities against the trainer's."""

from typing import Any

import torch
from accelerate import Accelerator

from cocal.errors import EngineError


class Agreement:
    """Compares the log-probabilities in the first update of each step, when the policy is still the one that sampled.
    The mean of their absolute differences has a bound (`policy.trl.vllm_difference`)."""

    def __init__(self, bound: float):
        self._bound = bound
        self._apart: list[torch.Tensor] = []
        self.latest: torch.Tensor | Any = None
        """Log-probabilities (rows, length) that the trainer's model gave last."""
        self.difference: tuple[float, ...] = ()
        """Mean and largest difference of the last step that was compared; empty where nothing is compared."""

    def add(self, sampled: torch.Tensor, mask: torch.Tensor) -> None:
        """Add a micro-batch: the `latest` log-probabilities, and vLLM's (rows, length), which are NaN where it has
        none. The mask is nonzero where a token belongs to the response."""
        self._apart.append((self.latest - sampled)[mask.bool()].abs())

    def compare(self, step: int, accelerator: Accelerator) -> str:
        """Compare what was added, over all processes; returns the result in words, which are empty if nothing was.
        Raises EngineError if they differ so much that vLLM must have sampled from another policy."""
        if not self._apart:
            return ""
        apart, self._apart = torch.cat(self._apart), []
        known = ~apart.isnan()
        sums = torch.stack([apart.nansum(), known.sum().to(apart.dtype), apart.nan_to_num().max()])
        total, count, largest = accelerator.gather(sums[None]).T
        self.difference = float(total.sum() / count.sum()), float(largest.max())
        if not self.difference[0] <= self._bound:
            raise EngineError(
                f"step {step}: vLLM's log-probabilities differ from the trainer's by {self.difference} (mean, largest),"
                f" more than policy.trl.vllm_difference = {self._bound:g}, so its rollouts are not those of the policy:"
                " try another policy.trl.vllm_attention_backend or version of vLLM, or raise the bound"
            )
        return ", vLLM off by {:.4f} (at most {:.2f})".format(*self.difference)
