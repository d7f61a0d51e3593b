"""The sums of the states of growing responses, as an engine computes them in steps of any form.

A request keeps its sum when it is preempted. What is then computed again is skipped: no prefix of the cache can be
longer than what the request itself has computed, since its last token never comes from there.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

_NEVER = 2**40
"""The length of a response that has not ended."""


class Computed(NamedTuple):
    """What the model has computed in a step.

    Attributes:
        states: Those of each layer, (at least all tokens, hidden), of any float format.
        requests: Ids of the requests, whose tokens lie one after another.
        bounds: int64 (requests + 1,), where the tokens of each begin, and where they end.
        starts: int64 (requests,), how many tokens of each were computed before.
    """

    states: Sequence[Tensor]
    requests: Sequence[str]
    bounds: np.ndarray
    starts: np.ndarray


class Sums:
    """The sum and the last of the states of each response so far, in places that are used again.

    Args:
        device: Where they are kept.
        prompts: Whether the state of the prompt's last token is kept, too.
    """

    def __init__(self, device: torch.device, prompts: bool):
        self._device, self._names = device, ("last", "mean", *(["prompt"] if prompts else []))
        self._begun: dict[str, tuple[int, int]] = {}
        """What was told of requests of which nothing was computed yet, and which have no place."""
        self._ended: dict[str, int] = {}
        """Lengths of responses that have ended and were not read yet."""
        self._places: dict[str, int] = {}
        self._free: list[int] = []
        self._kept: dict[str, Tensor] = {}
        self._counts = np.zeros((4, 0), np.int64)
        """Tokens of the prompt, tokens up to which states are summed, the length at which they end, and the number of
        tokens after each of which the response is read, 0 for none."""
        self.due: list[tuple[str, int]] = []
        """Growing responses that are to be read after the latest step, with their numbers of tokens."""

    def follow(
        self, begun: Mapping[str, tuple[int, int]] = {}, ended: Mapping[str, int] = {}, gone: Sequence[str] = ()
    ) -> None:
        """Take what the scheduler has told (`cocal.engines.states_connector.Step`)."""
        self._begun |= begun
        self._ended |= ended
        for name in gone:
            self._ended.pop(name, None)
            if self._begun.pop(name, None) is None:
                self._free.append(self._places.pop(name))

    def whole(self) -> list[str]:
        """Requests whose responses are summed to their ends, each of them once."""
        places = self._places
        found = [name for name, end in self._ended.items() if name in places and self._counts[1, places[name]] == end]
        for name in found:
            del self._ended[name]
        return found

    def add(self, step: Computed) -> None:
        """Add the states of a step; those that were added before are skipped."""
        self.due = []
        for name in self._begun.keys() & {*step.requests}:
            self._begin(name, *self._begun.pop(name), step)
        if not self._places:
            return
        for name in self._ended.keys() & self._places.keys():
            self._counts[2, self._places[name]] = self._ended[name]
        places = np.array([self._places.get(name, -1) for name in step.requests], np.int64)
        prompt, done, limit, every = self._counts[:, places]
        followed, ends = places >= 0, step.starts + np.diff(step.bounds)
        begin, stop = np.maximum(step.starts, done), np.minimum(ends, limit)
        offset = step.bounds[:-1] - step.starts  # of a token's row, from its position
        if "prompt" in self._names:
            here = followed & (step.starts < prompt) & (ends >= prompt)
            self._put("prompt", step, here, places, offset + prompt - 1)
        new = followed & (stop > begin)
        for k in np.flatnonzero(new & (stop - begin > 1)):  # sums in a fixed order, unlike scattered ones on a GPU
            for layer, states in enumerate(step.states):
                rows = states[offset[k] + begin[k] : offset[k] + stop[k] - 1]
                self._kept["mean"][places[k], layer] += rows.sum(0, dtype=torch.float32)
        if new.any():
            which, last = self._put("last", step, new, places, offset + stop - 1)
            self._kept["mean"][which] += last
        self._counts[1, places[new]] = stop[new]
        due = new & (every > 0) & (stop < limit) & ((stop - prompt) % np.maximum(every, 1) == 0)
        self.due = [(step.requests[k], int(stop[k] - prompt[k])) for k in np.flatnonzero(due).tolist()]

    def pooled(self, requests: Sequence[str], poolings: Sequence[str]) -> Tensor:
        """The pooled states of responses, float32 (n, layers, poolings, hidden), in the order of `poolings`."""
        places = np.array([self._places[name] for name in requests])
        which, counts = self._indices(places), self._counts[1, places] - self._counts[0, places]
        of = {name: kept[which] for name, kept in self._kept.items()}
        of["mean"] /= self._indices(counts)[:, None, None]
        return torch.stack([of[name] for name in poolings], dim=2)

    def _put(self, name: str, step: Computed, chosen: np.ndarray, places: np.ndarray, rows: np.ndarray):
        which, here = self._indices(places[chosen]), self._indices(rows[chosen])
        states = torch.stack([one[here] for one in step.states], dim=1).float()
        self._kept[name][which] = states
        return which, states

    def _indices(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self._device, non_blocking=True)

    def _begin(self, request: str, prompt: int, every: int, step: Computed) -> None:
        if not self._free:  # then there are twice as many places
            size = self._counts.shape[1]
            more = max(64, size)
            self._counts = np.pad(self._counts, ((0, 0), (0, more)))
            room = torch.zeros(more, len(step.states), step.states[0].shape[1], device=self._device)
            kept = self._kept
            self._kept = {name: torch.cat([kept[name], room] if kept else [room.clone()]) for name in self._names}
            self._free += range(size, size + more)
        place = self._places[request] = self._free.pop()
        self._counts[:, place] = prompt, prompt, _NEVER, every
        self._kept["mean"][place] = 0
