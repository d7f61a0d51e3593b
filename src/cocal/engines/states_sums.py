"""Sums of the states and token statistics of growing responses, from steps of an engine that hold any number of tokens
of each.

A request keeps its sum when it is preempted. What is then computed again is skipped: no prefix of the cache can be
longer than what the request itself has computed, since its last token never comes from there.

A token counts once its state is computed. Its log-probability comes from the row before it: in the same step, or at the
end of the request's previous step, where the token was drawn (`Sums.drawn`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

_NEVER = 2**40
"""The length of a response that has not ended."""


class Computed(NamedTuple):
    """What the model has computed in a step."""

    states: Sequence[Tensor]
    """The states of each layer, (at least all tokens, hidden), of any float format."""
    requests: Sequence[str]
    """Ids of the requests, whose tokens lie one after another."""
    bounds: np.ndarray
    """int64 (requests + 1,), the row at which the tokens of each request begin, and the end of the last ones."""
    starts: np.ndarray
    """int64 (requests,), how many tokens of each were computed before."""
    logprobs: Callable[[slice], Tensor]
    """Function of a slice of rows: the log-probabilities of the tokens that follow those of the rows, float32."""


class Sums:
    """The sum and the last of each response's states so far, in places that are reused.

    Args:
        device: Where they are kept.
        prompts: Whether the state of the prompt's last token is kept, too.
        tokens: Whether token statistics are kept, too.
    """

    def __init__(self, device: torch.device, prompts: bool, tokens: bool = False):
        self._device, self._names = device, ("last", "mean", *(["prompt"] if prompts else []))
        self._of_tokens = {"next": (), "tokens": (3,)} if tokens else {}
        """Shapes, for one response, of the next token's log-probability, and of the sum of the tokens' probabilities,
        the sum of their log-probabilities and the lowest log-probability."""
        self._begun: dict[str, tuple[int, int]] = {}
        """What the scheduler has told about requests that have no place, because nothing of them is computed yet."""
        self._ended: dict[str, int] = {}
        """Lengths of responses that have ended and were not read yet."""
        self._places: dict[str, int] = {}
        self._free: list[int] = []
        self._kept: dict[str, Tensor] = {}
        self._now = np.empty(0, np.int64)
        """Places of the requests of the latest step, -1 for those that are not followed."""
        self._counts = np.zeros((4, 0), np.int64)
        """For each place: prompt tokens, tokens whose states are summed, the length at which the response ends, and the
        interval at which it is read while it grows, 0 for none."""
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
        """Requests whose responses are completely summed; each is named once."""
        places = self._places
        names = [name for name, end in self._ended.items() if name in places and self._counts[1, places[name]] == end]
        for name in names:
            del self._ended[name]
        return names

    def add(self, step: Computed) -> None:
        """Add the states of a step; those that were added before are skipped."""
        self.due, self._now = [], np.full(len(step.requests), -1)
        for name in self._begun.keys() & {*step.requests}:
            self._begin(name, *self._begun.pop(name), step)
        if not self._places:
            return
        for name in self._ended.keys() & self._places.keys():
            self._counts[2, self._places[name]] = self._ended[name]
        places = self._now = np.array([self._places.get(name, -1) for name in step.requests], np.int64)
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
        if self._of_tokens:
            drawn = new & (begin == step.starts)  # their first token was drawn in an earlier step
            if drawn.any():
                which = self._indices(places[drawn])
                self._count(which, self._kept["next"][which][:, None])
            first = begin + drawn
            for k in np.flatnonzero(new & (stop > first)):
                rows = slice(int(offset[k] + first[k]) - 1, int(offset[k] + stop[k]) - 1)
                self._count(self._indices(places[k : k + 1]), step.logprobs(rows)[None])
        self._counts[1, places[new]] = stop[new]
        due = new & (every > 0) & (stop < limit) & ((stop - prompt) % np.maximum(every, 1) == 0)
        self.due = [(step.requests[k], int(stop[k] - prompt[k])) for k in np.flatnonzero(due).tolist()]

    def drawn(self, logprobs: Tensor) -> None:
        """Take the log-probabilities of the tokens that follow the latest step's, float32 (requests,)."""
        if (followed := np.flatnonzero(self._now >= 0)).size:
            self._kept["next"][self._indices(self._now[followed])] = logprobs[self._indices(followed)]

    def _count(self, which: Tensor, logprobs: Tensor) -> None:
        """Add log-probabilities of tokens, float32 (n, k), to the statistics of n responses in these places."""
        before, more = self._kept["tokens"][which], logprobs.double()
        sums = before[:, :2] + torch.stack([more.exp().sum(1), more.sum(1)], 1)
        self._kept["tokens"][which] = torch.cat([sums, torch.minimum(before[:, 2], more.amin(1))[:, None]], 1)

    def tokens(self, requests: Sequence[str]) -> Tensor:
        """The token statistics of responses, float32 (n, 3), as `token_inputs` defines them."""
        places = np.array([self._places[name] for name in requests])
        values = self._kept["tokens"][self._indices(places)]
        values[:, :2] /= self._indices(self._counts[1, places] - self._counts[0, places])[:, None]
        return values.float()

    def pooled(self, requests: Sequence[str], poolings: Sequence[str]) -> Tensor:
        """The pooled states of responses, float32 (n, layers, poolings, hidden), in the order of `poolings`."""
        places = np.array([self._places[name] for name in requests])
        which, counts = self._indices(places), self._counts[1, places] - self._counts[0, places]
        of = {name: kept[which] for name, kept in self._kept.items()}
        of["mean"] /= self._indices(counts)[:, None, None]
        return torch.stack([of[name] for name in poolings], dim=2)

    def _put(self, name: str, step: Computed, chosen: np.ndarray, places: np.ndarray, rows: np.ndarray):
        which, here = self._indices(places[chosen]), self._indices(rows[chosen])
        states = torch.stack([block[here] for block in step.states], dim=1).float()
        self._kept[name][which] = states
        return which, states

    def _indices(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self._device, non_blocking=True)

    def _begin(self, request: str, prompt: int, every: int, step: Computed) -> None:
        if not self._free:  # then there are twice as many places
            size = self._counts.shape[1]
            more = max(64, size)
            self._counts = np.pad(self._counts, ((0, 0), (0, more)))
            shapes = dict.fromkeys(self._names, (len(step.states), step.states[0].shape[1])) | self._of_tokens
            for name, shape in shapes.items():
                form = torch.float64 if name == "tokens" else torch.float32
                room = torch.zeros(more, *shape, device=self._device, dtype=form)
                self._kept[name] = torch.cat([self._kept[name], room]) if size else room
            self._free += range(size, size + more)
        place = self._places[request] = self._free.pop()
        self._counts[:, place] = prompt, prompt, _NEVER, every
        for name in {"mean", "tokens"} & self._kept.keys():
            self._kept[name][place] = 0
