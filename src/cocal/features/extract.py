"""Hidden states of responses, from teacher-forced passes over their exact token ids."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cocal.features.forward import PROMPT, RESPONSE_POOLINGS, Prefixes, output_is_plain, resolve_layers, score
from cocal.features.settings import FeatureSettings
from cocal.features.store import Layout
from cocal.models.loading import Policy
from cocal.models.text import Tokens, batches_of_tokens
from cocal.runtime.progress import through

if TYPE_CHECKING:
    from transformers import PretrainedConfig


def poolings_of(prompt: bool) -> tuple[str, ...]:
    """The poolings of evaluation responses, with that of the prompt if it is wanted."""
    return (*RESPONSE_POOLINGS, PROMPT) if prompt else RESPONSE_POOLINGS


def stored_states(config: "PretrainedConfig", settings: FeatureSettings) -> dict[str, Any]:
    """Return the layers, the hidden width and the number format of the store as arguments of `create_features`.

    Args:
        config: The policy's configuration (`cocal.models.loading.text_config`).

    Raises:
        ValueError: if the settings name a layer that the policy does not have.
    """
    layers = resolve_layers(settings.layers, config.num_hidden_layers)
    return {"layers": layers, "hidden": config.hidden_size, "dtype": settings.dtype}


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
"""Numbers about the probabilities that a model gave the tokens of a response (`states_and_tokens`)."""


def states_and_tokens(
    policy: Policy,
    layout: Layout,
    prompts: Sequence[Tokens],
    responses: Sequence[Tokens],
    batch_tokens: int,
    prefixes: Sequence[np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The pooled states of n responses (`pooled_states`), and what the model gave their tokens, from the same passes.

    Args:
        prefixes: Numbers of tokens of k prefixes of each response or fewer, ascending, whose states stand behind those
            of the whole responses; the layout's poolings then are those of responses and 2 k more.

    Returns:
        float32 (n, layers, poolings, hidden), and float32 (n, `TOKEN_INPUTS` + k): the mean probability of the
        response's tokens (TokenProb, appendix B.1), their mean log-probability, and the lowest one; then the mean
        probabilities of the tokens of prefixes. Zeros stand in place of prefixes that a response does not have.
    """
    batches = batches_of_tokens([len(p) + len(r) for p, r in zip(prompts, responses, strict=True)], batch_tokens)
    plain = output_is_plain(policy.model, [*prompts[0], *responses[0]])
    own = layout.poolings if prefixes is None else RESPONSE_POOLINGS
    states = np.zeros((len(responses), *layout.shape[1:]), dtype=np.float32)

    def take(row: int, found: np.ndarray) -> None:
        states[row, :, len(own) :][:, : 2 * len(found)] = found.swapaxes(0, 1).reshape(
            len(layout.layers), -1, layout.hidden
        )

    options = {"layers": layout.layers, "pad": policy.pad, "poolings": own}
    options["prefixes"] = None if prefixes is None else Prefixes(prefixes, take)
    found = score(policy.model, prompts, responses, batches, logprobs="sliced" if plain else True, **options)
    states[:, :, : len(own)] = found.features
    given = np.zeros((len(responses), TOKEN_INPUTS + (len(layout.poolings) - len(own)) // 2), dtype=np.float32)
    for row, one in enumerate(found.logprobs):
        given[row, :TOKEN_INPUTS] = np.exp(one).mean(), one.mean(), one.min()
        if prefixes is not None:
            until = prefixes[row]
            given[row, TOKEN_INPUTS:][: len(until)] = np.exp(one).cumsum(dtype=np.float64)[until - 1] / until
    return states, given
