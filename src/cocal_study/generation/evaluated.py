"""Feature stores of evaluation responses."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cocal.answers.extraction import confidence_span, token_of
from cocal.features.extract import pooled_states
from cocal.features.forward import RESPONSE_POOLINGS, resolve_layers
from cocal.features.store import create_features
from cocal.models.loading import Policy
from cocal.models.text import plain_texts
from cocal.store import atomic_path
from cocal_study.config.features import FeatureSettings

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

_ROWS_PER_WRITE = 2048
"""Number of responses whose features are held in memory and written together."""


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
    with atomic_path(output) as partial:
        writer = create_features(
            partial,
            responses=len(responses),
            rows_per_chunk=min(_ROWS_PER_WRITE, len(responses)),
            attributes=attributes,
            poolings=poolings,
            **stored_states(policy.config, settings),
        )
        for start in range(0, len(responses), _ROWS_PER_WRITE):
            block = responses.iloc[start : start + _ROWS_PER_WRITE]
            ids = block["prompt_ids"].tolist(), block["response_ids"].tolist()
            states = pooled_states(policy, writer.layout, *ids, settings.batch_tokens, f"{output.stem}: response")
            writer.write(start, block, states)
    logging.info("%s: states of %d responses", output, len(responses))
