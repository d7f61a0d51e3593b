"""The sums of the states of growing responses, over steps of any form."""

import numpy as np
import pytest
import torch

from cocal.engines.states_sums import Computed, Sums
from cocal.features.extract import token_inputs

LAYERS, HIDDEN = 2, 6


def computed(draw, sums, late: bool) -> int:
    """Compute seventy requests in steps of random sizes, some preempted, and compare what is read of their responses.

    Returns:
        How many tokens were computed again.
    """
    names = [f"r{k}" for k in range(70)]
    prompt = {name: int(draw.integers(1, 9)) for name in names}
    length = {name: prompt[name] + int(draw.integers(1, 30)) for name in names}
    states = {name: torch.randn(length[name] + 400, LAYERS, HIDDEN) for name in names}
    logprobs = {name: -9 * torch.rand(len(states[name]) + 1) ** 3 for name in names}
    done, reached, found, again = dict.fromkeys(names, 0), dict.fromkeys(names, 0), {}, 0
    given = set(names[::3])  # their responses exist, and are a part of the request's prompt
    told, known = {name: length[name] for name in given}, {}
    every = {name: int(draw.integers(1, 6)) for name in names if name not in given and draw.random() < 0.5}
    begun, grown = {name: (prompt[name], every.get(name, 0)) for name in names}, []
    while len(found) < len(names):
        running = [name for name in names if name not in found and draw.random() < 0.7]
        sizes = []
        for name in running:
            if draw.random() < 0.1:  # preempted, and resumed with a prefix that the cache still holds
                done[name] = int(draw.integers(0, max(1, reached[name])))
            read = length[name] if name in given else max(prompt[name], reached[name])
            sizes.append(min(int(draw.integers(1, 7)), max(1, read - done[name])))  # what is known, or one token more
            again += max(0, min(reached[name], done[name] + sizes[-1]) - done[name])
        rows = [states[name][done[name] : done[name] + k] for name, k in zip(running, sizes, strict=True)]
        # a request that is not followed lies before them, and a graph pads the rows
        rows = torch.cat([torch.full((3, LAYERS, HIDDEN), 9.0), *rows, torch.full((4, LAYERS, HIDDEN), torch.nan)])
        spans = [logprobs[name][done[name] + 1 :][:k] for name, k in zip(running, sizes, strict=True)]
        following = torch.cat([torch.zeros(3), *spans])
        starts = np.array([5, *(done[name] for name in running)], np.int64)
        sums.follow(begun, told)
        bounds = np.cumsum([0, 3, *sizes])
        sums.add(Computed(list(rows.unbind(1)), ["other", *running], bounds, starts, following.__getitem__))
        if sums.due:
            due = [name for name, _ in sums.due]
            of_due = zip(sums.due, sums.pooled(due, ("last", "mean")), sums.tokens(due), strict=True)
            grown += [(name, tokens, *pair) for (name, tokens), *pair in of_due]
        if whole := sums.whole():
            pairs = zip(sums.pooled(whole, ("mean", "prompt", "last")), sums.tokens(whole), strict=True)
            found |= dict(zip(whole, pairs, strict=True))
        sums.drawn(following[bounds[1:] - 1])
        begun, told, known = {}, known, {}
        for name, k in zip(running, sizes, strict=True):
            done[name] += k
            if name not in given and reached[name] < length[name] - 1 <= done[name]:  # the last token is sampled
                (known if late else told)[name] = length[name]
            reached[name] = max(reached[name], done[name])
    for name in names:
        whole = states[name][: length[name]]
        expected = torch.stack([whole[prompt[name] :].mean(0), whole[prompt[name] - 1], whole[-1]], 1)
        torch.testing.assert_close(found[name][0], expected, rtol=0, atol=3e-6)
        given = logprobs[name][prompt[name] : length[name]].numpy()
        np.testing.assert_allclose(found[name][1][None], token_inputs(given, np.array([len(given)])), atol=3e-6)
    check_grown(grown, late, every, prompt, length, states, logprobs)
    sums.follow(gone=names)
    return again


def check_grown(grown, late, every, prompt, length, states, logprobs) -> None:
    """What is read of growing responses comes once, and is that of so many tokens."""
    # with late news of an end, what its last token makes due is read, too
    expected = {(name, k) for name in every for k in range(every[name], length[name] - prompt[name], every[name])}
    ends = {(name, length[name] - prompt[name]) for name in every}
    counted = [(name, tokens) for name, tokens, *_ in grown]
    assert len(counted) == len({*counted}) >= len(expected) > 50
    assert expected <= {*counted} <= expected | (ends if late else set())
    for name, tokens, one, given in grown:
        part = states[name][prompt[name] : prompt[name] + tokens]
        torch.testing.assert_close(one, torch.stack([part[-1], part.mean(0)], 1), rtol=0, atol=3e-6)
        expected = token_inputs(logprobs[name][prompt[name] :].numpy(), np.array([tokens]))
        np.testing.assert_allclose(given[None], expected, atol=3e-6)


@pytest.mark.parametrize("late", [False, True])
def test_sums_are_those_of_the_states_whatever_the_steps(late):
    """Chunks, preemptions, padding, requests that are not followed, more requests than places, and places used again.
    With late news of an end, as in asynchronous scheduling, its token may be computed before."""
    sums = Sums(torch.device("cpu"), prompts=True, tokens=True)
    for seed in range(4):
        assert computed(np.random.default_rng(seed), sums, late) > 500
        assert (sums._places, sums._ended, len(sums._free)) == ({}, {}, sums._counts.shape[1])
