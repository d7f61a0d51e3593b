"""A response as generation engines give it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

Reason = Literal["stop", "length", "tool_calls"]
"""Why a response ended."""


@dataclass(frozen=True)
class Completion:
    """One response."""

    token_ids: list[int]
    """Generated token ids, with the end-of-sequence token if the response reached it."""
    logprobs: np.ndarray
    """float32 (length,), log-probabilities under the raw logits, independent of the sampling parameters."""
    finish_reason: Reason
    """"stop" by the end-of-sequence token, "length" by max_tokens, "tool_calls" with text from tools."""
    best: np.ndarray | None = None
    """float32 (length, k), the k largest log-probabilities at each token, descending; None if not requested."""
