"""Attention on CPUs without copies of the keys and values."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

GROUPED = "grouped_sdpa"
"""Name of the implementation for `attn_implementation`."""


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
    """transformers' `sdpa` for CPUs, with equal results.

    Where several query heads share a key-value head and there is a mask, `sdpa` first repeats keys and values for
    each query head: CUDA's kernels want that. The CPU's kernel does not, and the copies are a third of the time of
    decoding.

    Args:
        module: unused.
        query: (batch, heads, length, width).
        key: (batch, key-value heads, total length, width).
        value: as `key`.
        attention_mask: bool, broadcasts to (batch, heads, length, total length); None: causal.
        dropout: of the attention weights.
        scaling: of the scores.

    Returns:
        (batch, length, heads, width), and no weights.
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
