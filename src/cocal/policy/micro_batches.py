"""Micro-batches of an update with as little padding as can be."""

from collections.abc import Mapping, Sequence

import torch

Batch = Mapping[str, torch.Tensor]


def sorted_by_length(batches: Sequence[Batch]) -> list[dict[str, torch.Tensor]]:
    """The rows of some micro-batches, sorted by length into as many of the same size, padding trimmed.

    The mean of the micro-batches' losses stays the same: padding has no loss, and every row its weight.

    Args:
        batches: in TRL's form: `prompt_ids` and `prompt_mask` (rows, prompt length) are padded on the left, all other
            tensors of two dimensions, `completion_ids` and `completion_mask` among them, (rows, response length or 1)
            on the right. Those of one dimension hold a value a row; scalars belong to the whole.
    """
    whole = {key: torch.cat([b[key] for b in batches]) if value.dim() else value for key, value in batches[0].items()}
    prompts, responses = whole["prompt_mask"].sum(dim=1), whole["completion_mask"].sum(dim=1)
    order = torch.argsort(prompts + responses, stable=True)
    return [
        {
            key: _part(key, value, rows, int(prompts[rows].max()), int(responses[rows].max()))
            for key, value in whole.items()
        }
        for rows in order.chunk(len(batches))
    ]


def _part(key: str, value: torch.Tensor, rows: torch.Tensor, prompt: int, response: int) -> torch.Tensor:
    """Some rows of a tensor, no wider than their longest prompt or response."""
    if value.dim() == 0:
        return value
    if value.dim() == 1:
        return value[rows]
    return value[rows, -prompt:] if key.startswith("prompt_") else value[rows, :response]
