"""Batches of features on a device, either held there or streamed from the store."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from cocal.features.store import FeatureReader


class Batches:
    """Features of rows of a store, in batches on a device and in the store's format, float32 or bfloat16.

    Rows are read in slices of the store's `rows_per_read`, of which at most four are in memory.

    Args:
        features: Feature store.
        layer: Block index; None for the deepest one in the store.
        poolings: Names of the poolings, concatenated in this order.
        rows: int64 (n,), ascending row numbers.
        batch: Number of rows in a batch.
        device: Device of the batches.
        held: If true, all features are loaded once; otherwise a background thread reads them again in every pass.
        shuffled: Number of rows that are read together if rows are streamed in a shuffled order. Each such read goes
            through the whole store, so a large number is faster.
    """

    def __init__(
        self,
        features: FeatureReader,
        layer: int | None,
        poolings: Sequence[str],
        rows: np.ndarray,
        batch: int,
        *,
        device: torch.device,
        held: bool = False,
        shuffled: int = 0,
    ):
        self._features, self._layer, self._poolings = features, layer, poolings
        self._rows, self._batch, self._shuffled, self._device = rows, batch, shuffled, device
        self._held = self._hold() if held else None

    def of(self, count: int, order: np.ndarray | None = None) -> Iterator[tuple[slice | Tensor, Tensor]]:
        """Yield the first `count` rows once, in batches.

        Args:
            count: Number of rows.
            order: Permutation of 0 to count - 1; ascending by default.

        Yields:
            Positions among the rows, a slice or int64 (b,) on the device, and their features (b, inputs).
        """
        places = None if order is None else torch.from_numpy(order).to(self._device)
        held = self._held
        streamed = self._batched(self._streamed(count, order)) if held is None else iter(())
        for start in range(0, count, self._batch):
            span = slice(start, min(start + self._batch, count))
            chosen = span if places is None else places[span]
            yield chosen, next(streamed) if held is None else held[chosen]

    def _hold(self) -> Tensor:
        held, filled = torch.empty(0), 0
        for block in self._streamed(len(self._rows)):
            if not filled:
                held = torch.empty((len(self._rows), block.shape[1]), dtype=block.dtype, device=self._device)
            held[filled : filled + len(block)] = block
            filled += len(block)
        return held

    def _streamed(self, count: int, order: np.ndarray | None = None) -> Iterator[Tensor]:
        """Yield the first `count` rows in blocks of any size; the next block is read in the background."""
        if order is None:
            rows = self._rows[:count]
            borders = np.flatnonzero(np.diff(rows // self._features.rows_per_read(len(self._poolings)))) + 1
        else:
            rows = self._rows[order]
            borders = np.arange(self._shuffled, count, self._shuffled)
        parts = np.split(rows, borders)
        with ThreadPoolExecutor(1) as reader:
            ahead = reader.submit(self._read, parts[0])
            for part in parts[1:]:
                following = reader.submit(self._read, part)
                yield ahead.result().to(self._device, non_blocking=True)
                ahead = following
            yield ahead.result().to(self._device, non_blocking=True)

    def _read(self, rows: np.ndarray) -> Tensor:
        block = torch.from_numpy(self._features.take(rows, self._layer, self._poolings))
        block = block.view(torch.bfloat16) if self._features.dtype == "bfloat16" else block
        return block.pin_memory() if self._device.type == "cuda" else block  # a GPU then copies asynchronously

    def _batched(self, blocks: Iterator[Tensor]) -> Iterator[Tensor]:
        """Regroup the rows of all blocks into batches; the last one may be smaller."""
        left = None
        for block in blocks:
            whole = block if left is None else torch.cat([left, block])
            *full, left = whole.split(self._batch)
            yield from full
        if left is not None and len(left):
            yield left
