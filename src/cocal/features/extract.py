"""Features of stored responses."""

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from transformers import PreTrainedModel

from cocal.config.evaluation import FeatureSettings
from cocal.features.capture import RESPONSE_POOLINGS, resolve_layers
from cocal.features.forward import batches_of_tokens, score
from cocal.features.store import create_features
from cocal.runtime.machine import peak_memory
from cocal.runtime.progress import through
from cocal.store import atomic_path

_BLOCK = 2048
"""Responses whose features are held and written together."""


def extract_features(
    model: PreTrainedModel,
    responses: pd.DataFrame,
    settings: FeatureSettings,
    *,
    pad: int,
    output: Path,
    attributes: Mapping[str, str],
    poolings: Sequence[str] = RESPONSE_POOLINGS,
) -> None:
    """Write the feature store of `responses`, atomically, and log how fast it went.

    Args:
        model: policy that produced the responses.
        responses: columns response_id, question_id, prompt_ids, response_ids, length; token ids are used as they are.
        settings: layers, stored type, batch size.
        pad: padding token id.
        output: store to write.
        attributes: provenance.
        poolings: see `cocal.features.capture.capture`.
    """
    layers, what = resolve_layers(settings.layers, model.config.num_hidden_layers), f"{output.stem}: response"
    hidden = model.config.hidden_size
    started, tokens, padded = time.monotonic(), 0, 0
    with atomic_path(output) as partial:
        writer = create_features(
            partial,
            responses=len(responses),
            layers=layers,
            hidden=hidden,
            rows_per_chunk=min(_BLOCK, len(responses)),
            dtype=settings.dtype,
            poolings=poolings,
            attributes=attributes,
        )
        for start in range(0, len(responses), _BLOCK):
            block = responses.iloc[start : start + _BLOCK]
            prompts, answers = block["prompt_ids"].tolist(), block["response_ids"].tolist()
            lengths = [len(p) + len(a) for p, a in zip(prompts, answers, strict=True)]
            states = np.empty((len(block), len(layers), len(poolings), hidden), dtype=np.float32)
            batches = batches_of_tokens(lengths, settings.batch_tokens)
            tokens += sum(lengths)
            padded += sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
            scored = score(
                model,
                prompts,
                answers,
                through(batches, what),
                layers=layers,
                pad=pad,
                poolings=poolings,
            )
            for part in scored:
                states[part.rows] = part.features
            ids = block["response_id"].to_numpy()
            writer.write(start, ids, block["question_id"].tolist(), block["length"].to_numpy(), states)
    logging.info(
        "%s: %d responses, %d tokens, %.1f %% padding, %.0f tokens/s, peak memory %.2f GiB",
        output,
        len(responses),
        tokens,
        100 * (1 - tokens / padded),
        tokens / (time.monotonic() - started),
        peak_memory() / 2**30,
    )
