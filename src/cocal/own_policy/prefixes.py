"""Prefixes of responses: which are learnt from, with which weight, and how good confidences in growing responses are.

A companion of whole responses says little before their end. One that has also seen the states after every so many
tokens says how likely the response will be correct while it grows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cocal.features.extract import TOKEN_INPUTS
from cocal.features.forward import RESPONSE_POOLINGS
from cocal.features.store import FeatureReader, decoded
from cocal.own_policy.facts import Part
from cocal.own_policy.quality import compared

if TYPE_CHECKING:
    import pandas as pd

MOST = 8
"""Most prefixes of a response that are learnt from."""
MEMORY = 8 * 2**30
"""Bytes that the states of all prefixes take as float32. Where they would take more, fewer of each response are learnt
from, but at least one: for 245,760 responses with 8,192 inputs, one of each, which doubles the memory of the fit."""
_TOGETHER = 256
"""Responses whose prefixes are mixed, so that a batch of the training holds those of many; more than these keep the
order of the training."""
_ROWS = 16384
"""Rows that are read at once."""
_QUARTERS = ("first", "second", "third", "last")


def names(count: int) -> tuple[str, ...]:
    """Names of the poolings of so many prefixes in a store of features."""
    return tuple(f"{pooling} of prefix {k}" for k in range(1, count + 1) for pooling in RESPONSE_POOLINGS)


def drawn(lengths: Sequence[int], every: int, hidden: int) -> list[np.ndarray]:
    """The prefixes that are learnt from, of each response the numbers of tokens, int64 (k,), ascending.

    They are multiples of `every` below the response's length. Where there are more than `MOST`, or than `MEMORY` has
    room for with states of width `hidden`, one comes from each of so many equal parts of the response, at a place that
    shifts from response to response by the golden ratio, so that all places occur about as often.
    """
    row = 4 * len(lengths) * len(RESPONSE_POOLINGS) * hidden
    most, found = min(MOST, max(1, MEMORY // row)), []
    for place, length in enumerate(lengths):
        count = (length - 1) // every
        steps = np.arange(count)
        if count > most:
            steps = ((np.arange(most) + place * 0.6180339887498949 % 1) * count / most).astype(np.int64)
        found.append((steps + 1) * every)
    return found


@dataclass(frozen=True)
class Rows:
    """What is learnt from responses: each whole one, and its prefixes.

    The rows are in the order of the responses but for those of `_TOGETHER` neighbours, which are mixed.

    Attributes:
        response: int64 (r,), place of each row's response.
        prefix: int64 (r,), number of the prefix among those of the response, from 1; 0 for the whole response.
        tokens: int64 (r,), number of tokens.
        share: float32 (r,), share of each row in what is learnt: a whole response has 1, and so have its prefixes
            together, so that long responses count as short ones.
    """

    response: np.ndarray
    prefix: np.ndarray
    tokens: np.ndarray
    share: np.ndarray

    @classmethod
    def of(cls, lengths: Sequence[int], prefixes: Sequence[np.ndarray] | None) -> "Rows":
        """The rows of n responses with these lengths and prefixes; None for the whole responses alone."""
        n, lengths = len(lengths), np.asarray(lengths)
        if prefixes is None:
            return cls(np.arange(n), np.zeros(n, dtype=np.int64), lengths, np.ones(n, dtype=np.float32))
        counts = np.array([len(one) for one in prefixes])
        response = np.concatenate([np.arange(n), np.repeat(np.arange(n), counts)])
        prefix = np.concatenate([np.zeros(n, dtype=np.int64), *(np.arange(1, count + 1) for count in counts)])
        order = np.lexsort((np.random.default_rng(0).random(len(response)), response // _TOGETHER))
        tokens = np.concatenate([lengths, *prefixes])
        share = np.where(prefix, 1 / np.maximum(counts, 1)[response], 1).astype(np.float32)
        return cls(response[order], prefix[order], tokens[order], share[order])

    @property
    def weight(self) -> np.ndarray:
        """Share of each row in its response where recipes are compared, float64 (r,): half for the whole one."""
        return self.share / np.bincount(self.response, self.share)[self.response]

    def states(self, store: FeatureReader, layer: int) -> np.ndarray:
        """The states of all rows, float32 (r, inputs)."""
        found = np.empty((len(self.response), len(RESPONSE_POOLINGS) * store.hidden), dtype=np.float32)
        for prefix in range(self.prefix.max() + 1):
            poolings = names(prefix)[-len(RESPONSE_POOLINGS) :] if prefix else RESPONSE_POOLINGS
            chosen = np.flatnonzero(self.prefix == prefix)
            for some in np.split(chosen, range(_ROWS, len(chosen), _ROWS)):
                found[some] = decoded(store.take(self.response[some], layer, poolings), store.dtype)
        return found

    def by_response(self, values: np.ndarray) -> np.ndarray:
        """Those of values (r,) that are of whole responses, in the order of the responses, float64 (n,)."""
        found, whole = np.empty(self.response.max() + 1), self.prefix == 0
        found[self.response[whole]] = values[whole]
        return found


def course(
    each: Rows, responses: "pd.DataFrame", confidence: np.ndarray, tokens: np.ndarray, every: int
) -> tuple[Part, ...]:
    """Quality of the confidence in responses as they grow: in each quarter, and in ranges of tokens that double.

    Each part has the last prefix there of each response, if there is one. Behind the quarters come the whole responses.

    Args:
        each: The rows of n responses.
        responses: Their columns length and correct.
        confidence: float64 (r,), of each row by members that have not learnt from its question.
        tokens: float32 (n, `TOKEN_INPUTS` + k), what the model gave the tokens (`states_and_tokens`).
        every: Number of tokens between prefixes.
    """
    length, correct = responses["length"].to_numpy(), responses["correct"].to_numpy()
    probability = np.delete(tokens, range(1, TOKEN_INPUTS), axis=1).astype(np.float64)
    share, whole, found = each.tokens / length[each.response], each.prefix == 0, []
    parts = {f"{name} quarter": (4 * share > k) & (4 * share <= k + 1) & ~whole for k, name in enumerate(_QUARTERS)}
    parts["whole response"] = whole
    start = every
    while start < length.max():
        parts[f"{start:,} to {2 * start - 1:,} tokens"] = (each.tokens >= start) & (each.tokens < 2 * start) & ~whole
        start *= 2
    for name, chosen in parts.items():
        among = np.flatnonzero(chosen)
        among = among[np.argsort(each.tokens[among], kind="stable")]
        last = np.full(len(length), -1)
        last[each.response[among]] = among  # of those of one response, the longest stays
        rows = last[last >= 0]
        if len(rows):
            response = each.response[rows]
            right, given = correct[response], probability[response, each.prefix[rows]]
            found.append(
                Part(
                    name=name,
                    responses=len(rows),
                    constant=float(right.var()),
                    token_probability=compared(given, right)["auroc"],
                    **compared(confidence[rows].astype(np.float64), right),
                )
            )
    return tuple(found)
