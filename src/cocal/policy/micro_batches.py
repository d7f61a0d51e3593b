"""Sorting of an update's micro-batches, so that they hold little padding."""

from collections.abc import Mapping, Sequence

import torch

Batch = Mapping[str, torch.Tensor]


def sorted_by_length(batches: Sequence[Batch]) -> list[dict[str, torch.Tensor]]:
    """Sort the rows of some micro-batches by length, into the same number of micro-batches, and trim the padding.

    The mean of the micro-batches' losses stays the same, since padding has no loss and every row keeps its weight.

    Args:
        batches: Micro-batches in TRL's form. `prompt_ids` and `prompt_mask` (rows, prompt length) are padded on the
            left; all other tensors of two dimensions, such as `completion_ids` (rows, response length or 1), are
            padded on the right. Tensors of one dimension hold a value per row; scalars belong to the whole update.
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
    """Some rows of a tensor, cut to the length of their longest prompt or response."""
    if value.dim() == 0:
        return value
    if value.dim() == 1:
        return value[rows]
    return value[rows, -prompt:] if key.startswith("prompt_") else value[rows, :response]
