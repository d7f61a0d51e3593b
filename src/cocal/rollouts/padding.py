"""Removal of padding from token ids, which engines put into batches and the policy has never written."""

from collections.abc import Iterable

import numpy as np

from cocal.errors import ContractError


class Padding:
    """Removes padding, given the ids that pad (one may also begin or end a text), the ids that end a response, those
    that begin a prompt, and those that the template writes after a response (`blanks`)."""

    def __init__(self, pads: Iterable[int], ends: Iterable[int], begins: Iterable[int], blanks: Iterable[int] = ()):
        self._pads, self._ends, self._begins = {*pads}, {*ends}, {*begins}
        self._only, self._end = np.array(sorted(self._pads - self._ends)), np.array(sorted(self._ends))
        self._behind = np.array(sorted({*self._pads, *self._ends, *blanks}))

    def prompt(self, ids: np.ndarray, where: str) -> np.ndarray:
        """A prompt without padding on its left or right, int (n,). Padding within it is a ContractError."""
        first, run = int(ids[0]), _run(ids)
        begun = run < len(ids) and int(ids[run]) in self._begins  # behind the run
        if first in self._begins:
            ids = ids[run - (not begun) :] if first in self._pads and run > 1 else ids
        elif first in self._pads or (run > 1) + begun + (first in self._ends) >= 2:
            # a token of padding, or two of three signs of it
            ids = ids[run:] if run < len(ids) else ids
        last, run = int(ids[-1]), _run(ids[::-1])
        if run < len(ids) and (last in self._pads - self._ends or (run > 1 and last in self._ends)):
            ids = ids[:-run]
        return self._whole(ids, where, "prompt")

    def response(self, ids: np.ndarray, truncated: bool | None, where: str) -> np.ndarray:
        """A response without padding, int (n,), and without what a template writes after its end. If the response was
        `truncated`, end tokens may be its padding. Raises a ContractError if there is padding within it."""
        run = _run(ids)
        if run < len(ids) and (int(ids[0]) in self._pads or (run > 1 and int(ids[0]) in self._ends)):
            ids = ids[run:]
        before, run = int(ids[-_run(ids[::-1]) - 1 :][0]), _run(ids[::-1])
        words = np.flatnonzero(~np.isin(ids, self._behind))
        tail = int(words[-1]) + 1 if len(words) else 0
        ended = tail + np.flatnonzero(np.isin(ids[tail:], self._end))
        if len(ended):
            padded = truncated and 0 < tail < len(ids) - 1 and _run(ids[tail:]) == len(ids) - tail
            ids = ids[: ended[0] + (not padded)]
        elif run < len(ids) and (int(ids[-1]) in self._pads or (run > 1 and before in self._ends)):
            ids = ids[:-run]
        return self._whole(ids, where, "response")

    def _whole(self, ids: np.ndarray, where: str, what: str) -> np.ndarray:
        padded = np.isin(ids, self._only)
        within = np.flatnonzero(padded[:-1] & padded[1:]) if len(self._only) else []
        if len(within):
            raise ContractError(
                f"{where}: the {what} has padding within it (id {ids[within[0]]} from token {within[0]} on); give ids "
                "without padding"
            )
        return ids


def _run(ids: np.ndarray) -> int:
    """The length of the run of equal ids at the beginning."""
    other = np.flatnonzero(ids != ids[0])
    return int(other[0]) if len(other) else len(ids)
