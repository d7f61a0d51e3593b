"""Hidden states of responses, from teacher-forced passes over their exact token ids."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from cocal.features.forward import Prefixes, output_is_plain, score
from cocal.features.store import Layout
from cocal.models.loading import Policy
from cocal.models.text import Tokens, batches_of_tokens
from cocal.runtime.progress import through


def pooled_states(
    policy: Policy,
    layout: Layout,
    prompts: Sequence[Tokens],
    responses: Sequence[Tokens],
    batch_tokens: int,
    progress: str = "",
    prefixes: Prefixes | None = None,
) -> np.ndarray:
    """Compute the pooled states of n responses, float32 (n, layers, poolings, hidden), in the order of the responses.

    Args:
        responses: Token ids of each response; see `cocal.features.forward.score`.
        batch_tokens: Largest number of tokens in one forward pass, padding included.
        progress: Name of a row in the log's progress lines; if empty, no progress is logged.
        prefixes: Prefixes of the responses that are pooled, too.
    """
    batches = batches_of_tokens([len(p) + len(r) for p, r in zip(prompts, responses, strict=True)], batch_tokens)
    batches = through(batches, progress) if progress else batches
    options = {"layers": layout.layers, "pad": policy.pad, "poolings": layout.poolings, "prefixes": prefixes}
    return score(policy.model, prompts, responses, batches, **options).features


TOKEN_INPUTS = 3
"""Number of token statistics of a response (`token_inputs`)."""


def states_and_tokens(
    policy: Policy,
    layout: Layout,
    prompts: Sequence[Tokens],
    responses: Sequence[Tokens],
    batch_tokens: int,
    prefixes: Prefixes | None = None,
    read: Callable[[float], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The pooled states (`pooled_states`) and token statistics (`token_inputs`) of n responses, from the same passes.

    Args:
        read: Called with the number of tokens after each pass.

    Returns:
        float32 (n, layers, poolings, hidden), and float32 (n, `TOKEN_INPUTS`), see `token_inputs`.
    """
    lengths = [len(p) + len(r) for p, r in zip(prompts, responses, strict=True)]
    batches = batches_of_tokens(lengths, batch_tokens)
    if read is not None:
        batches = _told(batches, np.array(lengths), read)
    plain = output_is_plain(policy.model, [*prompts[0], *responses[0]])
    options = {"layers": layout.layers, "pad": policy.pad, "poolings": layout.poolings, "prefixes": prefixes}
    pooled = score(policy.model, prompts, responses, batches, logprobs="sliced" if plain else True, **options)
    return pooled.features, np.concatenate([token_inputs(row, np.array([len(row)])) for row in pooled.logprobs or ()])


def _told(batches: Iterable[np.ndarray], lengths: np.ndarray, read: Callable[[float], None]) -> Iterator[np.ndarray]:
    for batch in batches:
        yield batch
        read(float(lengths[batch].sum()))


def token_inputs(logprobs: np.ndarray, until: np.ndarray) -> np.ndarray:
    """The token statistics of a response over its first `until` tokens, int64 (k,), from 1 to the length, as float32
    (k, `TOKEN_INPUTS`): the mean probability (TokenProb, appendix B.1), the mean log-probability, and the lowest one.
    The `logprobs` are float32 (length,)."""
    sums = (np.cumsum(each, dtype=np.float64)[until - 1] / until for each in (np.exp(logprobs), logprobs))
    return np.stack([*sums, np.minimum.accumulate(logprobs)[until - 1]], axis=1).astype(np.float32)


def inputs_of(
    policy: Policy,
    layout: Layout,
    prompts: Sequence[Tokens],
    responses: Sequence[Tokens],
    batch_tokens: int,
    tokens: bool,
    every: int | None = None,
    take: Callable[[int, np.ndarray], None] | Any = None,
) -> np.ndarray:
    """The inputs of a companion for n responses, float32 (n, inputs): pooled states, followed by `token_inputs` if
    `tokens`. With `every`, `take` is called with the index of each response and its inputs after each multiple of
    `every` tokens below its length, float32 (k, inputs), which nothing else keeps."""
    passed, prefixes = (policy, layout, prompts, responses, batch_tokens), None
    if every:
        lengths = [np.arange(every, len(ids), every) for ids in responses]

        def grown(row: int, states: np.ndarray, logprobs: Any) -> None:
            take(row, _flat(states, token_inputs(logprobs, lengths[row]) if tokens else None))

        prefixes = Prefixes(lengths, grown)
    if tokens:
        return _flat(*states_and_tokens(*passed, prefixes))
    return _flat(pooled_states(*passed, prefixes=prefixes), None)


def _flat(states: np.ndarray, tokens: np.ndarray | None) -> np.ndarray:
    flat = states.reshape(len(states), np.prod(states.shape[1:], dtype=int))
    return flat if tokens is None else np.concatenate([flat, tokens], axis=1)
