"""What all generation engines take and give: sampling parameters, and responses."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Reason = Literal["stop", "length", "tool_calls"]
"""Why a response ended."""


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters of responses (table of hyperparameters, evaluation).

    Attributes:
        temperature: Divisor of the logits.
        top_k: Number of most likely tokens that are kept; 0 keeps all of them.
        top_p: Probability that the smallest kept set among the `top_k` tokens must reach.
        presence_penalty: Amount subtracted once from the logit of every token that the response already holds, before
            the temperature is applied; prompt tokens do not count.
        max_tokens: Longest response.
        samples: Number of responses per prompt.
    """

    temperature: float
    top_k: int
    top_p: float
    presence_penalty: float
    max_tokens: int
    samples: int = 1

    @classmethod
    def of(cls, settings: Any, max_tokens: int, samples: int = 1) -> "Sampling":
        """Take the sampling parameters from settings that have fields of their names."""
        kept = {name: getattr(settings, name) for name in ("temperature", "top_k", "top_p", "presence_penalty")}
        return cls(**kept, max_tokens=max_tokens, samples=samples)


@dataclass(frozen=True)
class Completion:
    """One response.

    Attributes:
        token_ids: Generated token ids, with the end-of-sequence token if the response reached it.
        logprobs: float32 (length,), log-probabilities under the raw logits, independent of the sampling parameters.
        finish_reason: "stop" if the end-of-sequence token ended it, "length" if max_tokens did, "tool_calls" if it
            holds words of tools.
        states: float32 (layers, poolings, hidden), pooled states of the response; None if they were not read.
    """

    token_ids: list[int]
    logprobs: np.ndarray
    finish_reason: Reason
    states: np.ndarray | None = None
