"""Tables of recorded responses and rollouts, and the writer of those of every training step."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cocal.answers.extraction import extract_answer
from cocal.answers.judge import Verdicts
from cocal.engines.engine import Completion
from cocal.features.store import FeatureWriter
from cocal.models.text import Tokens
from cocal.rewards import Rewards, group_accuracy, stated_confidences
from cocal.store import write_frame
from cocal.store.contracts import RESPONSES
from cocal.store.run_folder import WriteBehind


def sampled_rows(
    completions: Sequence[Completion],
    texts: Sequence[str],
    prompt_format: str,
    *,
    dataset: str,
    question_ids: Sequence[str],
    prompt_ids: Sequence[Tokens],
    group_size: int,
    step: int,
    first: int = 0,
) -> pd.DataFrame:
    """Build rows of a response table (`RESPONSES`) without verdicts, rewards and P(True).

    The `group_size` responses to a question are consecutive. Answers and confidences (`stated_confidences`) are parsed
    from their `plain_texts`.
    """
    count = len(completions)
    best, kept = [c.best for c in completions if c.best is not None], {}
    if len(best) == count:
        kept = {"best_logprobs": [logprobs.ravel() for logprobs in best], "best_entropy": [*map(_entropy, best)]}
    return pd.DataFrame(
        {
            "dataset": dataset,
            "question_id": list(question_ids),
            "response_id": np.arange(first, first + count),
            "step": step,
            "sample": np.arange(count) % group_size,
            "prompt_ids": list(prompt_ids),
            "response_ids": [c.token_ids for c in completions],
            "logprobs": [c.logprobs for c in completions],
            "text": list(texts),
            "length": [len(c.token_ids) for c in completions],
            "finish_reason": [c.finish_reason for c in completions],
            "truncated": [c.finish_reason != "stop" for c in completions],
            "mean_logprob": [float(np.mean(c.logprobs, dtype=np.float64)) for c in completions],
            "answer": pd.array([extract_answer(text) for text in texts], dtype="str"),
            "reward_task": np.nan,
            "reward_calibration": np.nan,
            "confidence": stated_confidences(texts, prompt_format),
            "p_true": np.nan,
            "p_true_mass": np.nan,
            **kept,
        }
    )


def _entropy(best: np.ndarray) -> np.ndarray:
    """Entropies, float32 (length,), of the best log-probabilities, float32 (length, k), and one outcome for others."""
    shares = np.exp(best, dtype=np.float64)
    rest = np.clip(1 - shares.sum(axis=1, keepdims=True), 0, 1)
    shares = np.concatenate([shares, rest], axis=1)
    return -(shares * np.log(np.where(shares > 0, shares, 1))).sum(axis=1).astype(np.float32)


def rollout_rows(sampled: pd.DataFrame, verdicts: Verdicts, rewards: Rewards, group_size: int) -> pd.DataFrame:
    """Rows of `sampled_rows` with verdicts and rewards (`RESPONSES`) of rollouts, which answer mathematical questions,
    and whose answers are not compared with one another."""
    return sampled.assign(
        answer_class=np.nan,
        correct=verdicts.values,
        exact_match=pd.array([None] * len(sampled), dtype="boolean"),
        decided=verdicts.decided,
        group_accuracy=group_accuracy(verdicts.values, group_size),
        reward_task=rewards.task,
        reward_calibration=np.nan if rewards.calibration is None else rewards.calibration,
    )


class StepWriter(WriteBehind):
    """Writes rollouts (`rollouts/step-00001.parquet`, ...) and their states, each step's while the next is computed.

    A step that a resumed training writes again replaces the earlier one. `features` writes to a store that holds all
    steps; it is None if no states are kept.
    """

    def __init__(self, folder: Path, attributes: Mapping[str, str], features: FeatureWriter | None = None):
        super().__init__()
        self._folder = folder / "rollouts"
        self._attributes = dict(attributes)
        self.features: FeatureWriter | Any = features

    def write(self, frame: pd.DataFrame | Callable[[], pd.DataFrame], features: np.ndarray | None = None) -> None:
        """Begin to record the rollouts of one step; all steps have the same number of rollouts.

        Args:
            frame: Rollouts (`RESPONSES`), whose response ids count through all steps, or a function that gives them.
            features: Pooled states, float32 (rollouts, layers, poolings, hidden); None without a store. The caller
                changes neither of the two afterwards.

        Raises:
            Exception: what the writing of the step before raised.
        """
        self.start(lambda: self._write(frame, features))

    def _write(self, frame: Any, features: Any) -> None:
        if callable(frame):
            frame = frame()
        if self.features is not None:
            self.features.write(int(frame["response_id"].iloc[0]), frame, features)
        write_frame(self.table(frame["step"].iloc[0]), frame, RESPONSES, self._attributes)

    def table(self, step: int) -> Path:
        """Table of a step; names sort in the order of the steps."""
        return self._folder / f"step-{step:05d}.parquet"
