"""Features of the prompts that policy training asked (appendix F.4, pre-generation)."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.checkpoints.loading import load_policy
from cocal.config.evaluation import FeatureSettings
from cocal.features.capture import PROMPT, resolve_layers
from cocal.features.forward import batches_of_tokens, score
from cocal.features.store import create_features
from cocal.replay.checkpoints import StepCheckpoints
from cocal.runtime.progress import through
from cocal.store import atomic_path


def extract_prompts(
    checkpoints: StepCheckpoints,
    rollouts: pd.DataFrame,
    settings: FeatureSettings,
    *,
    output: Path,
    attributes: Mapping[str, str],
) -> None:
    """Write the last prompt token's states of every question that was asked, one row a group, atomically.

    Args:
        checkpoints: which checkpoint reads which step.
        rollouts: columns step, dataset, question_id, prompt_ids, sample, chronological; of each group at least the
            first response.
        settings: layers, stored type, batch size.
        output: store to write; row k belongs to row k of `cocal.companion.supervision.read_prompts`.
        attributes: provenance.
    """
    groups = first_of_groups(rollouts).reset_index(drop=True)
    with atomic_path(output) as partial:
        writer = None
        for checkpoint, steps in checkpoints.spans(int(groups["step"].max())):
            first, last = np.searchsorted(groups["step"], [steps.start, steps.stop])
            prompts = groups["prompt_ids"].iloc[first:last].tolist()
            model, tokenizer = load_policy(checkpoint)
            layers, hidden = resolve_layers(settings.layers, model.config.num_hidden_layers), model.config.hidden_size
            if writer is None:
                writer = create_features(
                    partial,
                    responses=len(groups),
                    layers=layers,
                    hidden=hidden,
                    rows_per_chunk=int((groups["step"] == 1).sum()),
                    dtype=settings.dtype,
                    poolings=(PROMPT,),
                    attributes=attributes,
                )
            states = np.empty((len(prompts), len(layers), 1, hidden), dtype=np.float32)
            batches = batches_of_tokens(list(map(len, prompts)), settings.batch_tokens)
            none = [()] * len(prompts)
            for part in score(
                model,
                prompts,
                none,
                through(batches, f"{checkpoint.name}: prompt"),
                layers=layers,
                pad=tokenizer.pad_token_id,
                poolings=(PROMPT,),
            ):
                states[part.rows] = part.features
            asked = groups["question_id"].iloc[first:last].tolist()
            writer.write(int(first), np.arange(first, last), asked, np.ones(last - first, dtype=np.int64), states)


def first_of_groups(rollouts: pd.DataFrame) -> pd.DataFrame:
    """The first response of every group, in order.

    Args:
        rollouts: with the column sample.
    """
    return rollouts[rollouts["sample"] == 0]
