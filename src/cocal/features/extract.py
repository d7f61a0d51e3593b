"""States of prompts and responses that are stored already: one teacher-forced pass over their exact token ids."""

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cocal.checkpoints.loading import Policy
from cocal.checkpoints.text import Tokens
from cocal.config.evaluation import FeatureSettings
from cocal.features.capture import RESPONSE_POOLINGS, resolve_layers
from cocal.features.forward import batches_of_tokens, padded_tokens, score
from cocal.features.store import Layout
from cocal.features.writer import create_features
from cocal.runtime.machine import peak_memory
from cocal.runtime.progress import through
from cocal.store import atomic_path

_BLOCK = 2048
"""Responses whose features are held and written together."""


def stored_states(policy: Policy, settings: FeatureSettings) -> dict[str, Any]:
    """What of a policy's states the settings keep: layers, width and number format, as arguments of `create_features`.

    Raises:
        ValueError: if the policy has no such layer.
    """
    layers = resolve_layers(settings.layers, policy.blocks)
    return {"layers": layers, "hidden": policy.hidden, "dtype": settings.dtype}


def pooled_states(
    policy: Policy,
    layout: Layout,
    prompts: Sequence[Tokens],
    responses: Sequence[Tokens],
    batch_tokens: int,
    progress: str = "",
) -> np.ndarray:
    """The states that a feature store keeps of n responses, float32 (n, layers, poolings, hidden), in their order.

    Args:
        policy: reads them.
        layout: of the store; it names the layers and the poolings.
        prompts: token ids of each prompt.
        responses: token ids of each response; see `cocal.features.forward.score`.
        batch_tokens: padded tokens in one forward pass, at most.
        progress: name of the rows in the log's lines of progress; without one there are none.
    """
    batches = batches_of_tokens([len(p) + len(r) for p, r in zip(prompts, responses, strict=True)], batch_tokens)
    states = np.empty((len(prompts), len(layout.layers), len(layout.poolings), layout.hidden), dtype=np.float32)
    for part in score(
        policy.model,
        prompts,
        responses,
        through(batches, progress) if progress else batches,
        layers=layout.layers,
        pad=policy.pad,
        poolings=layout.poolings,
    ):
        states[part.rows] = part.features
    return states


def extract_features(
    policy: Policy,
    responses: pd.DataFrame,
    settings: FeatureSettings,
    *,
    output: Path,
    attributes: Mapping[str, str],
    poolings: Sequence[str] = RESPONSE_POOLINGS,
) -> None:
    """Write the feature store of `responses`, atomically, and log how fast it went.

    Args:
        policy: produced the responses.
        responses: columns response_id, question_id, prompt_ids, response_ids, length; token ids are used as they are.
        settings: layers, stored type, batch size.
        output: store to write.
        attributes: provenance.
        poolings: see `cocal.features.capture.capture`.
    """
    started, tokens, padded = time.monotonic(), 0, 0
    with atomic_path(output) as partial:
        writer = create_features(
            partial,
            responses=len(responses),
            rows_per_chunk=min(_BLOCK, len(responses)),
            attributes=attributes,
            poolings=poolings,
            **stored_states(policy, settings),
        )
        for start in range(0, len(responses), _BLOCK):
            block = responses.iloc[start : start + _BLOCK]
            prompts, answers = block["prompt_ids"].tolist(), block["response_ids"].tolist()
            what = f"{output.stem}: response"
            states = pooled_states(policy, writer.layout, prompts, answers, settings.batch_tokens, what)
            writer.write_rows(start, block, states)
            lengths = [len(p) + len(a) for p, a in zip(prompts, answers, strict=True)]
            tokens, padded = tokens + sum(lengths), padded + padded_tokens(lengths, settings.batch_tokens)
    logging.info(
        "%s: %d responses, %d tokens, %.1f %% padding, %.0f tokens/s, peak memory %.2f GiB",
        output,
        len(responses),
        tokens,
        100 * (1 - tokens / padded),
        tokens / (time.monotonic() - started),
        peak_memory() / 2**30,
    )
