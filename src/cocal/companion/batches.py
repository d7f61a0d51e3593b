"""Batches of features on a device, either held there or streamed from the store."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from cocal.features.store import FeatureReader


def loader(features: FeatureReader, layer: int | None, poolings: Sequence[str]) -> Callable[[np.ndarray], Tensor]:
    """Return a function that reads features (n, inputs) of n rows in the store's format, float32 or bfloat16."""

    def load(rows: np.ndarray) -> Tensor:
        taken = torch.from_numpy(features.take(rows, layer, poolings))
        return taken.view(torch.bfloat16) if features.dtype == "bfloat16" else taken

    return load


class Batches:
    """Features of rows of a store, in batches on a device and in the store's format.

    Args:
        load: Function that loads features (n, inputs) of n rows into host memory.
        rows: int64 (n,), ascending row numbers.
        batch: Number of rows in a batch.
        per_slice: Number of the store's rows that are read together; at most four such slices are in memory.
        device: Device of the batches.
        held: If true, all features are loaded once; otherwise a background thread reads them again in every pass.
        shuffled: Number of rows that are read together if rows are streamed in another order. Each such read goes
            through the whole store, so a large number is faster.
    """

    def __init__(
        self,
        load: Callable[[np.ndarray], Tensor],
        rows: np.ndarray,
        batch: int,
        *,
        per_slice: int,
        device: torch.device,
        held: bool = False,
        shuffled: int = 0,
    ):
        self._load, self._rows, self._batch = load, rows, batch
        self._per_slice, self._shuffled, self._device = per_slice, shuffled, device
        self._held = self._hold() if held else None

    def of(self, count: int, order: np.ndarray | None = None) -> Iterator[tuple[slice | Tensor, Tensor]]:
        """Yield the first `count` rows once, in batches.

        Args:
            count: Number of rows.
            order: Permutation of 0 to count - 1; ascending by default.

        Yields:
            Positions among the rows, a slice or int64 (b,) on the device, and their features (b, inputs). The last
            batch may be smaller.
        """
        places = None if order is None else torch.from_numpy(order).to(self._device)
        streamed = None if self._held is not None else self._batched(self._streamed(count, order))
        for start in range(0, count, self._batch):
            span = slice(start, min(start + self._batch, count))
            chosen = span if places is None else places[span]
            yield chosen, self._held[chosen] if streamed is None else next(streamed)

    def _hold(self) -> Tensor:
        held, filled = None, 0
        for block in self._streamed(len(self._rows)):
            if held is None:
                held = torch.empty((len(self._rows), block.shape[1]), dtype=block.dtype, device=self._device)
            held[filled : filled + len(block)] = block
            filled += len(block)
        return held

    def _streamed(self, count: int, order: np.ndarray | None = None) -> Iterator[Tensor]:
        """Yield the first `count` rows in blocks of any size; the next block is read in the background."""
        if order is None:
            rows = self._rows[:count]
            borders = np.flatnonzero(np.diff(rows // self._per_slice)) + 1
        else:
            rows = self._rows[order]
            borders = np.arange(self._shuffled, count, self._shuffled)
        parts = np.split(rows, borders)
        with ThreadPoolExecutor(1) as reader:
            ahead = reader.submit(self._read, parts[0])
            for part in [*parts[1:], None]:
                following = None if part is None else reader.submit(self._read, part)
                yield ahead.result().to(self._device, non_blocking=True)
                ahead = following

    def _read(self, rows: np.ndarray) -> Tensor:
        block = self._load(rows)
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
