"""Feature stores of evaluation responses: their states are computed, written or copied."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cocal.answers.extraction import confidence_span, token_of
from cocal.errors import ContractError
from cocal.features.extract import pooled_states
from cocal.features.forward import PROMPT, RESPONSE_POOLINGS, resolve_layers
from cocal.features.store import Layout, NumberFormat, create_features, open_features
from cocal.models.loading import Policy
from cocal.models.text import plain_texts
from cocal.store import atomic_path
from cocal_study.config.features import FeatureSettings

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

_ROWS_PER_WRITE = 2048
"""Number of responses whose features are held in memory and written together."""


def poolings_of(prompt: bool) -> tuple[str, ...]:
    """The poolings of evaluation responses, with that of the prompt if it is wanted."""
    return (*RESPONSE_POOLINGS, PROMPT) if prompt else RESPONSE_POOLINGS


def stored_states(config: "PretrainedConfig", settings: FeatureSettings) -> dict[str, Any]:
    """Return the layers, the hidden width and the number format of the store as arguments of `create_features`.
    Raises ValueError if the settings name a layer that the policy does not have."""
    layers = resolve_layers(settings.layers, config.num_hidden_layers)
    return {"layers": layers, "hidden": config.hidden_size, "dtype": settings.dtype}


def task_length(ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> int:
    """Count the leading tokens that hold the task response, which ends before RLCR's reasoning, the first `<reason>`.

    If a malformed response has no such tag, its task response ends before the confidence statement, and without one,
    where the response does. A token that spans both sides of the boundary does not count. `decode` turns token ids into
    text, omits special tokens and keeps spaces unchanged.
    """
    text = decode(ids)
    end, statement = text.find("<reason>"), confidence_span(text)
    if end < 0:
        if statement is None:
            return len(ids)
        end = statement[0]
    return token_of(ids, decode, end)


def task_responses(responses: "pd.DataFrame", tokenizer: "PreTrainedTokenizerBase") -> "pd.DataFrame":
    """Cut responses to their `task_length` and drop those that become empty."""
    lengths = [task_length(ids, lambda part: plain_texts(tokenizer, [part])[0]) for ids in responses["response_ids"]]
    cut = [ids[:length] for ids, length in zip(responses["response_ids"], lengths, strict=True)]
    responses = responses.assign(length=lengths, response_ids=cut)
    return responses[responses["length"] > 0].reset_index(drop=True)


def extract_features(
    policy: Policy,
    responses: "pd.DataFrame",
    settings: FeatureSettings,
    *,
    output: Path,
    attributes: Mapping[str, str],
    poolings: Sequence[str] = RESPONSE_POOLINGS,
) -> None:
    """Write the feature store of responses of a policy, atomically. The columns response_id, question_id, prompt_ids,
    response_ids and length are read; for the poolings see `cocal.features.forward.capture`."""

    def read(layout: Layout, _start: int, block: "pd.DataFrame") -> np.ndarray:
        ids = block["prompt_ids"].tolist(), block["response_ids"].tolist()
        return pooled_states(policy, layout, *ids, settings.batch_tokens, f"{output.stem}: response")

    _store(output, responses, read, attributes=attributes, poolings=poolings, **stored_states(policy.config, settings))
    logging.info("%s: states of %d responses", output, len(responses))


def write_features(
    output: Path,
    responses: "pd.DataFrame",
    states: Sequence[np.ndarray],
    *,
    layers: Sequence[int],
    poolings: Sequence[str],
    dtype: NumberFormat,
) -> None:
    """Write the feature store of states that an engine has read, atomically: float32 (layers, poolings, hidden) of each
    response. The columns response_id, question_id and length of the responses are read."""

    def read(_layout: Layout, start: int, block: "pd.DataFrame") -> np.ndarray:
        return np.stack(states[start : start + len(block)])

    hidden = states[0].shape[-1]
    _store(output, responses, read, attributes={}, poolings=poolings, layers=layers, hidden=hidden, dtype=dtype)


def copy_features(source: Path, responses: "pd.DataFrame", *, output: Path, attributes: Mapping[str, str]) -> None:
    """Write the feature store of `responses` from one that holds their states, atomically. Raises ContractError if
    that store belongs to other responses, or is damaged."""
    kept = open_features(source)
    if kept.response_id.tolist() != responses["response_id"].tolist():
        raise ContractError(f"{source}: holds the states of other responses; run the job again that sampled them")

    def read(layout: Layout, start: int, block: "pd.DataFrame") -> np.ndarray:
        parts = [kept.read(start, start + len(block), layer, kept.poolings) for layer in kept.layers]
        return np.stack(parts, axis=1).reshape(len(block), *layout.shape[1:])

    shape = {"layers": kept.layers, "hidden": kept.hidden, "dtype": kept.dtype}
    _store(output, responses, read, attributes=attributes, poolings=kept.poolings, **shape)


def _store(
    output: Path,
    responses: "pd.DataFrame",
    read: Callable[[Layout, int, "pd.DataFrame"], np.ndarray],
    *,
    attributes: Mapping[str, str],
    poolings: Sequence[str],
    **shape: Any,
) -> None:
    """Write a feature store, whose states `read` gives for a part of the responses after the other."""
    with atomic_path(output) as partial:
        writer = create_features(
            partial,
            responses=len(responses),
            rows_per_chunk=min(_ROWS_PER_WRITE, len(responses)),
            attributes=attributes,
            poolings=poolings,
            **shape,
        )
        for start in range(0, len(responses), _ROWS_PER_WRITE):
            block = responses.iloc[start : start + _ROWS_PER_WRITE]
            writer.write(start, block, read(writer.layout, start, block))
