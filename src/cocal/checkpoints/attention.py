"""Attention on CPUs without repeated keys and values."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

GROUPED = "grouped_sdpa"
"""Value of `attn_implementation` that selects it."""


def grouped_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **_,
) -> tuple[torch.Tensor, None]:
    """Compute the same as transformers' `sdpa`, but faster on CPUs.

    If several query heads share a key-value head and there is a mask, `sdpa` first repeats keys and values for each
    query head, because CUDA's kernels need it. The CPU's kernel does not, and the copies take a third of the time of
    decoding.

    Args:
        module: Unused.
        query: Queries (batch, heads, length, width).
        key: Keys (batch, key-value heads, total length, width).
        value: Values (batch, key-value heads, total length, width).
        attention_mask: Mask, bool, broadcasts to (batch, heads, length, total length); None means causal attention.
        dropout: Dropout rate of the attention weights.
        scaling: Factor of the scores.

    Returns:
        Output (batch, length, heads, width), and None in place of the attention weights.
    """
    output = scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        dropout_p=dropout,
        is_causal=attention_mask is None and query.shape[2] > 1,
        scale=scaling,
        enable_gqa=True,
    )
    return output.transpose(1, 2).contiguous(), None


AttentionInterface.register(GROUPED, grouped_attention)
AttentionMaskInterface.register(GROUPED, sdpa_mask)
