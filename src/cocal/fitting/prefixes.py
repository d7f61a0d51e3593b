"""Prefixes of responses: which are learnt from, with which weight, and how good confidences in growing responses are.

A companion of whole responses says little before their end; one that has learnt from prefixes scores growing ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from cocal.features.extract import TOKEN_INPUTS
from cocal.features.forward import RESPONSE_POOLINGS
from cocal.features.store import FeatureReader, decoded
from cocal.fitting.held_out import Part
from cocal.fitting.quality import compared

MOST = 8
"""Largest number of prefixes of a response that are learnt from."""
MEMORY = 8 * 2**30
"""Largest number of bytes of all prefixes' states in float32. Above it, fewer prefixes of each response are used, at
least one. 245,760 responses with 8,192 inputs get one each, which doubles the memory of the fit."""
_TOGETHER = 256
"""Number of neighbouring responses whose rows are mixed, so that a training batch holds rows of many of them."""
_GOLDEN = 0.6180339887498949
_QUARTERS = ("first", "second", "third", "last")


def names(count: int) -> tuple[str, ...]:
    """Names of the poolings of this number of prefixes in a feature store."""
    return tuple(f"{pooling} of prefix {k}" for k in range(1, count + 1) for pooling in RESPONSE_POOLINGS)


def drawn(lengths: Sequence[int], every: int, hidden: int) -> list[np.ndarray]:
    """The prefixes of each response that are learnt from, as numbers of tokens, int64 (k,), ascending.

    They are multiples of `every` below its length. If there are more than `MOST`, or than `MEMORY` has room for with
    states of width `hidden`, one comes from each of that many equal parts of the response, at a position that shifts
    from response to response by the golden ratio, so that all positions occur about equally often.
    """
    row = 4 * len(lengths) * len(RESPONSE_POOLINGS) * hidden
    most, prefixes = min(MOST, max(1, MEMORY // row)), []
    for place, length in enumerate(lengths):
        count = (length - 1) // every
        steps = np.arange(min(count, most))
        if count > most:
            steps = ((steps + place * _GOLDEN % 1) * count / most).astype(np.int64)
        prefixes.append((steps + 1) * every)
    return prefixes


@dataclass(frozen=True)
class Rows:
    """The rows to learn from, whole responses and prefixes in order; those of `_TOGETHER` neighbours are mixed."""

    response: np.ndarray
    """int64 (r,), place of each row's response."""
    prefix: np.ndarray
    """int64 (r,), number of the prefix among those of the response, from 1; 0 for the whole response."""
    tokens: np.ndarray
    """int64 (r,), number of tokens."""
    share: np.ndarray
    """float32 (r,), weight of each row in training: 1 for a whole response, and 1 for all of its prefixes together, so
    that long responses count as much as short ones."""

    @classmethod
    def of(cls, lengths: Sequence[int], prefixes: Sequence[np.ndarray] | None) -> "Rows":
        """The rows of n responses with these lengths and prefixes; None for the whole responses alone."""
        grown = [()] * len(lengths) if prefixes is None else prefixes
        counts = np.array([len(ends) for ends in grown])
        response = np.repeat(np.arange(len(counts)), 1 + counts)
        prefix = np.concatenate([np.arange(1 + count) for count in counts])
        tokens = np.concatenate([(length, *ends) for length, ends in zip(lengths, grown, strict=True)])
        share = np.where(prefix, 1 / np.maximum(counts, 1)[response], 1).astype(np.float32)
        mixed = np.random.default_rng(0).random(len(response))
        order = slice(None) if prefixes is None else np.lexsort((mixed, response // _TOGETHER))
        return cls(response[order], prefix[order], tokens[order], share[order])

    @property
    def weight(self) -> np.ndarray:
        """Weight of each row in its response when recipes are compared, float64 (r,): one half for the whole one."""
        return self.share / np.bincount(self.response, self.share)[self.response]

    def inputs(self, store: FeatureReader, layer: int, tokens: np.ndarray | None) -> np.ndarray:
        """The states of all rows, followed by token statistics if they are given, float32 (r, inputs).

        Args:
            store: States of n responses, and of their prefixes by their `names`.
            tokens: float32 (n, `TOKEN_INPUTS` * (1 + k)), token statistics of each response, then of its prefixes.
        """
        width, at_once = len(RESPONSE_POOLINGS) * store.hidden, store.rows_per_read(len(RESPONSE_POOLINGS))
        inputs = np.empty((len(self.response), width + (0 if tokens is None else TOKEN_INPUTS)), dtype=np.float32)
        for prefix in range(self.prefix.max() + 1):
            poolings = names(prefix)[-len(RESPONSE_POOLINGS) :] or RESPONSE_POOLINGS
            chosen = np.flatnonzero(self.prefix == prefix)
            for some in np.split(chosen, range(at_once, len(chosen), at_once)):  # a copy of them all would be gigabytes
                inputs[some, :width] = decoded(store.take(self.response[some], layer, poolings), store.dtype)
        if tokens is not None:
            inputs[:, width:] = self.given(tokens)
        return inputs

    def given(self, tokens: np.ndarray) -> np.ndarray:
        """The token statistics of each row, float32 (r, `TOKEN_INPUTS`); see `inputs`."""
        return tokens.reshape(len(tokens), -1, TOKEN_INPUTS)[self.response, self.prefix]

    def by_response(self, values: np.ndarray) -> np.ndarray:
        """The values of the whole responses among values (r,), in the order of the responses, float64 (n,)."""
        whole = np.flatnonzero(self.prefix == 0)
        return values[whole[np.argsort(self.response[whole])]]


def quality_of_parts(
    each: Rows, responses: pd.DataFrame, confidence: np.ndarray, tokens: np.ndarray, every: int
) -> tuple[Part, ...]:
    """Quality of the confidence in responses as they grow: in each quarter, and in ranges of tokens that double.

    Each part has the last prefix of each response that ends in it, if any. After the quarters come the whole responses.

    Args:
        each: The rows of n responses.
        responses: Their columns length and correct.
        confidence: float64 (r,), of each row by members that have not learnt from its question.
        tokens: See `Rows.inputs`.
        every: Number of tokens between prefixes.
    """
    length, correct = responses["length"].to_numpy(), responses["correct"].to_numpy()
    chance, grown = each.given(tokens)[:, 0].astype(np.float64), each.prefix > 0
    quarter = np.ceil(4 * each.tokens / length[each.response])
    parts = {f"{name} quarter": grown & (quarter == k) for k, name in enumerate(_QUARTERS, 1)}
    parts["whole response"] = ~grown
    for start in every * 2 ** np.arange(int(each.tokens.max() // every).bit_length()):
        parts[f"{start:,} to {2 * start - 1:,} tokens"] = grown & (each.tokens >= start) & (each.tokens < 2 * start)
    trajectory, ends = [], pd.Series(each.tokens)
    for name, chosen in parts.items():
        rows = ends[chosen].groupby(each.response[chosen]).idxmax().to_numpy()
        if len(rows):
            right = correct[each.response[rows]]
            other, own = compared(chance[rows], right)["auroc"], compared(confidence[rows], right)
            del own["mean_confidence"]
            of_part: dict[str, Any] = {"constant": float(right.var()), "token_probability": other, **own}
            trajectory.append(Part(name=name, responses=len(rows), **of_part))
    return tuple(trajectory)
