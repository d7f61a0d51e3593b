"""The check of recorded rollouts against one pass over their exact token ids, all in one batch."""

import numpy as np
import pandas as pd
import torch

from cocal.features.forward import score
from cocal.features.store import FeatureReader
from cocal.models.loading import Policy


def check_recorded(
    policy: Policy, rows: pd.DataFrame, reader: FeatureReader | None = None, layers: tuple[int, ...] = (1,)
) -> None:
    """Log-probabilities of consecutive rows, and the states in their store, are those that the policy gives."""
    prompts, responses = rows["prompt_ids"].tolist(), rows["response_ids"].tolist()
    batches = [np.arange(len(rows))]
    found = score(policy.model, prompts, responses, batches, layers=layers, pad=policy.pad, logprobs=True)
    rounding = 1e-4 if policy.model.dtype == torch.float32 else 0.1
    for recorded, expected in zip(rows["logprobs"], found.logprobs, strict=True):
        np.testing.assert_allclose(recorded, expected, atol=rounding)
    for place, layer in enumerate(layers if reader is not None else ()):
        live = reader.read(rows.index[0], rows.index[-1] + 1, layer=layer)
        np.testing.assert_allclose(found.features[:, place].reshape(len(rows), -1), live, atol=1e-4)
