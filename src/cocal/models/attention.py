"""Attention without repeated keys and values, and for short sequences on CPUs without MKL."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from cocal.runtime.numerics import active

GROUPED = "grouped_sdpa"
"""Value of `attn_implementation` that selects it."""

_SHORT = 256 * 256
"""Largest number of scores per head for which matrix products are used, since these write all scores to memory."""


def grouped_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    position_bias: torch.Tensor | None = None,
    **_,
) -> tuple[torch.Tensor, None]:
    """Compute the same as transformers' `sdpa`, but faster on CPUs.

    If several query heads share a key-value head and there is a mask, `sdpa` first repeats keys and values for each
    query head, as CUDA's kernels need it. The CPU's does not, and the copies take a third of the time of decoding.

    That kernel calls MKL, whose portable mode is slow. With portable numerics, attention over short sequences is
    therefore two products, which OpenBLAS computes, and a softmax. One query a row, as in decoding, is faster without.

    Args:
        query: Queries (batch, heads, length, width).
        key, value: Keys and values (batch, key-value heads, total length, width).
        attention_mask: Mask, bool, broadcasts to (batch, heads, length, total length); None means causal attention.
        position_bias: Learnt summand of the scores, which few models have; transformers' `sdpa` computes theirs.

    Returns:
        Output (batch, length, heads, width), and None in place of the attention weights.
    """
    if position_bias is not None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, position_bias=position_bias
        )
    short = query.shape[2] > 1 and query.shape[2] * key.shape[2] <= _SHORT
    added = attention_mask is not None and attention_mask.dtype != torch.bool  # a mask of a few models' own
    if short and not dropout and not added and active() == "portable":
        output = _by_products(query, key, value, attention_mask, scaling)
    else:
        rows, heads, length, width = query.shape
        # one query of each head, as in decoding: the heads of a key-value head are queries that attend alike
        folded = length == 1 and (query.dtype == torch.bfloat16 or query.is_cuda)
        output = scaled_dot_product_attention(
            query.reshape(rows, key.shape[1], -1, width) if folded else query,
            key,
            value,
            attn_mask=attention_mask,
            dropout_p=dropout,
            is_causal=attention_mask is None and length > 1,
            scale=scaling,
            enable_gqa=not folded,
        )
        output = output.reshape(rows, heads, length, -1)
    return output.transpose(1, 2).contiguous(), None


def _by_products(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scaling: float | None
) -> torch.Tensor:
    """Compute attention as two products, each for all query heads of a key-value head together, and a softmax.

    The output is (batch, heads, length, width). A query that may attend to nothing, as padding may, attends to all.
    """
    rows, heads, length, width = query.shape
    shared, total = key.shape[1:3]
    if mask is None:
        mask = torch.ones(length, total, dtype=torch.bool, device=query.device).tril(total - length)
    refused = torch.zeros(mask.shape, dtype=query.dtype, device=query.device)
    refused.masked_fill_(~mask, torch.finfo(query.dtype).min)
    query = query * (width**-0.5 if scaling is None else scaling)
    query, key, value = (part.reshape(rows * shared, -1, part.shape[3]) for part in (query, key, value))
    scores = (query @ key.transpose(1, 2)).view(rows, heads, length, total) + refused
    return (scores.softmax(dim=3).view(rows * shared, -1, total) @ value).view(rows, heads, length, value.shape[2])


AttentionInterface.register(GROUPED, grouped_attention)
AttentionMaskInterface.register(GROUPED, sdpa_mask)
