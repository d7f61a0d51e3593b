"""The scores of the rivals that read no hidden states, defined alike for rollouts and for evaluated responses."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.config.evaluation import EstimatorSettings
from cocal.methods.length import inverse_length
from cocal.methods.self_consistency import leave_one_out
from cocal.methods.semantic_entropy import semantic_certainty
from cocal.methods.token_probability import least_token_probability, token_probability
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES

SCORES: dict[str, Callable[[pd.DataFrame], np.ndarray]] = {
    "token-probability": lambda table: token_probability(table["mean_logprob"]),
    "least-token-probability": lambda table: table["least_token_probability"].to_numpy(dtype=np.float64),
    "self-consistency-loo": lambda table: leave_one_out(table["answer_class"], table["pool"].tolist()),
    "semantic-entropy": lambda table: semantic_certainty(table["answer_class"], table["pool"].tolist()),
    "length": lambda table: inverse_length(table["length"]),
    "rlcr": lambda table: table["confidence"].to_numpy(dtype=np.float64),
    "dcpo": lambda table: table["confidence"].to_numpy(dtype=np.float64),
}
"""By rival, the function from a table of responses to their scores, float64 (n,) in [0, 1], NaN where there is none.
The table has a column pool, the group of rollouts or the pool of responses to a question, and the columns of
`cocal.store.contracts.RESPONSES`, with least_token_probability in place of logprobs."""
_OF_AGREEMENT = "self-consistency-loo"
POOLED = (_OF_AGREEMENT, "semantic-entropy")
"""The rivals that read the equivalence classes of the answers of a pool."""


def score(rival: str, table: pd.DataFrame, settings: EstimatorSettings) -> np.ndarray:
    """Score all responses of a table; see `SCORES`.

    Args:
        rival: Name of a rival that reads no hidden states.
        table: Rollouts with their groups, or responses with their pools.
        settings: Settings of the estimators; a response without an answer agrees with nothing (a score of 0) or has no
            score.
    """
    found = SCORES[rival](table)
    if rival == _OF_AGREEMENT and settings.missing_answer == "zero":
        return np.where(table["answer_class"].to_numpy() < 0, 0.0, found)
    return found


def read_scored(files: Iterator[Path] | list[Path], columns: list[str]) -> pd.DataFrame:
    """Read columns of tables of responses, with the probability of the least likely token of each.

    Log-probabilities of all tokens are read file by file, since those of a whole training do not fit into memory.

    Args:
        files: Tables of responses (`cocal.store.contracts.RESPONSES`).
        columns: Columns to read.

    Returns:
        The rows in file order, with the columns and least_token_probability.

    Raises:
        ContractError: if a file breaks its contract.
    """
    parts = []
    for file in files:
        part = read_frame(file, RESPONSES, [*columns, "logprobs"])
        least = least_token_probability(part.pop("logprobs"))
        parts.append(part.assign(least_token_probability=least))
    return pd.concat(parts, ignore_index=True)
