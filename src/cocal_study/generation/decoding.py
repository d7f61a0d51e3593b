"""The next logits of a batch of responses, token after token, with a cache of keys and values.

On a processor the cache grows with the responses and loses those that have ended. On a GPU, a step of a small policy
takes hundreds of kernels, which a processor starts more slowly than they run; there the cache keeps its place in
memory, so that a step can be recorded once and replayed.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from cocal.models.attention import GROUPED
from cocal.models.loading import text_config
from cocal.runtime.graphs import Recorded

ROOM = 128
"""Further tokens that fit into a `Fixed` cache before it is laid out anew; every step reads all of the cache."""


class Growing:
    """Decoding steps with a growing cache, which holds each response's prompt already. The mask, int64 (rows, length),
    is 1 where tokens may be attended to, and `position`, int64 (rows, 1), is that of the last token."""

    def __init__(self, model: PreTrainedModel, cache: DynamicCache, mask: Tensor, position: Tensor):
        self._model, self._cache, self._mask, self._position = model, cache, mask, position

    def next(self, token: Tensor) -> Tensor:
        """Logits (rows, vocabulary) after these tokens, int64 (rows,)."""
        self._mask = torch.cat([self._mask, self._mask.new_ones((len(token), 1))], dim=1)
        self._position = self._position + 1
        return logits_of(self._model, token[:, None], self._mask, self._position, self._cache)

    def keep(self, rows: Tensor) -> None:
        """Continue with these rows only."""
        self._cache.batch_select_indices(rows)
        self._mask, self._position = self._mask[rows], self._position[rows]


class Fixed:
    """The same steps with a cache that keeps its place until its room is used up, or half of its rows have ended."""

    def __init__(self, model: PreTrainedModel, cache: DynamicCache, mask: Tensor, position: Tensor):
        self._model, self._cache, self._mask, self._position = model, cache, mask.bool()[:, None, None], position
        self._length = self._end = mask.shape[1]
        self._rows = torch.arange(len(mask), device=mask.device)

    @staticmethod
    def suits(model: PreTrainedModel, cache: DynamicCache) -> bool:
        """True if each block attends to all earlier tokens, by an implementation of attention that accepts the mask."""
        attention = text_config(model.config)._attn_implementation
        return attention in ("sdpa", GROUPED) and all(type(layer) is DynamicLayer for layer in cache.layers)

    def next(self, token: Tensor) -> Tensor:
        """See `Growing.next`."""
        if self._length == self._end or 2 * len(self._rows) <= len(self._mask):
            self._lay_out()
        self._token[self._rows, 0] = token
        self._mask[..., self._length] = True
        self._place.fill_(self._length)
        self._position += 1
        self._length += 1
        logits = self._recorded(self._logits) if token.is_cuda else self._logits()
        return logits[self._rows]

    def keep(self, rows: Tensor) -> None:
        """See `Growing.keep`."""
        self._rows = self._rows[rows]

    def _lay_out(self) -> None:
        """Move the remaining rows into a new cache with room for further tokens."""
        rows, count = self._rows, len(self._rows)
        self._end = -(-(self._length + ROOM) // 8) * 8  # kernels would copy a mask of another length
        self._place = torch.empty(1, dtype=torch.long, device=rows.device)
        for k, layer in enumerate(self._cache.layers):  # one by one, so that the memory of each is freed
            layer.batch_select_indices(rows)
            self._cache.layers[k] = _Held(layer, self._length, self._end, self._place)
        mask = self._mask.new_zeros((count, 1, 1, self._end))
        mask[..., : self._length] = self._mask[rows][..., : self._length]
        self._mask, self._position = mask, self._position[rows]
        self._token = torch.empty_like(self._position)
        self._rows = torch.arange(count, device=rows.device)
        self._recorded = Recorded()

    def _logits(self) -> Tensor:
        # PyTorch's kernels would repeat keys and values for every head that shares them, since there is a mask
        config = text_config(self._model.config)
        usual, config._attn_implementation = config._attn_implementation, GROUPED
        try:
            return logits_of(self._model, self._token, self._mask, self._position, self._cache)
        finally:
            config._attn_implementation = usual


class _Held(DynamicLayer):
    """Keys and values of a block, each (rows, heads, end, width), to which each step writes at index `place`."""

    keys: Any
    values: Any

    def __init__(self, layer: Any, length: int, end: int, place: Tensor):
        super().__init__()
        self.dtype, self.device, self.is_initialized, self._place = layer.dtype, layer.device, True, place
        self.keys, self.values = (
            torch.cat([old[:, :, :length], old.new_zeros((*old.shape[:2], end - length, old.shape[3]))], dim=2)
            for old in (layer.keys, layer.values)
        )

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write the states of a token, and return all."""
        self.keys.index_copy_(2, self._place, key_states)
        self.values.index_copy_(2, self._place, value_states)
        return self.keys, self.values


def logits_of(
    model: PreTrainedModel, ids: Tensor, mask: Tensor, positions: Tensor, cache: DynamicCache | None = None
) -> Tensor:
    """Logits (rows, vocabulary) after the last of the tokens, int64 (rows, length), with their mask and positions."""
    output = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache,
        use_cache=cache is not None,
        logits_to_keep=1,
    )
    return output.logits[:, -1]
