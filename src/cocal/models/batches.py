"""Batches of texts of similar lengths, so that few tokens are padding."""

from collections.abc import Sequence

import numpy as np


def batches_of_rows(lengths: Sequence[int], rows: int) -> list[np.ndarray]:
    """Split indices, sorted by length, into batches of `rows`, whose number is the same for all sharded processes."""
    order = np.argsort(lengths, kind="stable")
    return [order[start : start + rows] for start in range(0, len(order), rows)]


def batches_of_tokens(lengths: Sequence[int], tokens: int) -> list[np.ndarray]:
    """Split indices, sorted by length, into batches of at most `tokens` tokens with padding, or of one row."""
    order = np.argsort(lengths, kind="stable")
    batches, start = [], 0
    for stop in range(1, len(order) + 1):
        if stop == len(order) or (stop + 1 - start) * lengths[order[stop]] > tokens:
            batches.append(order[start:stop])
            start = stop
    return batches


def padded_tokens(lengths: Sequence[int], tokens: int) -> int:
    """Count the tokens, padding included, in the batches of `batches_of_tokens`."""
    return sum(len(batch) * max(lengths[i] for i in batch) for batch in batches_of_tokens(lengths, tokens))
