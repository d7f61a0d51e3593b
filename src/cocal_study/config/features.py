"""Settings of the hidden states that are stored."""

from typing import Annotated, Literal

from pydantic import Field

from cocal.settings.base import Count, Model


class FeatureSettings(Model):
    """Hidden states that are stored for the companions (equation 6)."""

    layers: Literal["final", "all"] | tuple[Annotated[int, Field(ge=0)], ...] = "final"
    """Zero-based indices of the blocks whose states are stored; the final block is always added. `final` stores only
    the last block, before the final RMSNorm."""
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    batch_tokens: Count = 16384
    """Largest number of tokens in one forward pass, padding included."""
