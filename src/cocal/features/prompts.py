"""Features of the prompts that policy training asked (appendix F.4, pre-generation)."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.config.evaluation import FeatureSettings
from cocal.features.readers import StepCheckpoints
from cocal.features.writer import create_features
from cocal.models.loading import load_policy
from cocal.store import atomic_path


def extract_prompts(
    checkpoints: StepCheckpoints,
    rollouts: pd.DataFrame,
    settings: FeatureSettings,
    *,
    output: Path,
    attributes: Mapping[str, str],
) -> None:
    """Write the states of the last prompt token atomically, one row for each group of rollouts.

    Args:
        checkpoints: Checkpoint of each step.
        rollouts: Chronological table with the columns step, dataset, question_id, prompt_ids and sample; it holds at
            least the first response of each group.
        settings: Layers, number format and batch size.
        output: Path of the new store; row k belongs to row k of `cocal.companion.supervision.read_prompts`.
        attributes: Provenance of the store.
    """
    from cocal.features.capture import PROMPT  # torch: who asks for `first_of_groups` alone does without
    from cocal.features.extract import pooled_states, stored_states

    groups = first_of_groups(rollouts).reset_index(drop=True)
    with atomic_path(output) as partial:
        writer = None
        for checkpoint, steps in checkpoints.spans(int(groups["step"].max())):
            first, last = np.searchsorted(groups["step"], [steps.start, steps.stop])
            prompts = groups["prompt_ids"].iloc[first:last].tolist()
            policy = load_policy(checkpoint)
            if writer is None:
                writer = create_features(
                    partial,
                    responses=len(groups),
                    rows_per_chunk=int((groups["step"] == 1).sum()),
                    attributes=attributes,
                    poolings=(PROMPT,),
                    **stored_states(policy, settings),
                )
            none = [()] * len(prompts)
            what = f"{checkpoint.name}: prompt"
            states = pooled_states(policy, writer.layout, prompts, none, settings.batch_tokens, what)
            rows = groups.iloc[first:last].assign(response_id=np.arange(first, last), length=1)
            writer.write_rows(int(first), rows, states)


def first_of_groups(rollouts: pd.DataFrame) -> pd.DataFrame:
    """Return the first response (`sample` 0) of every group, in order."""
    return rollouts[rollouts["sample"] == 0]
