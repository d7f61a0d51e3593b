"""Writes the rollouts of a training run as it goes: one table a step, features into one store."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.errors import ContractError
from cocal.features.store import FeatureWriter
from cocal.schemas import RESPONSES
from cocal.store import write_frame


@dataclass(frozen=True)
class Rollouts:
    """The rollouts of one step, groups consecutive.

    Attributes:
        question_id: per response.
        prompt_ids: token ids per response.
        response_ids: token ids per response, the generated end-of-sequence token included.
        logprobs: float32 (length,) per response, raw.
        text: decoded response, special tokens left out.
        truncated: bool (n,): the longest length was reached before the end-of-sequence token.
        answer: extracted final answers.
        correct: bool (n,).
        group_accuracy: float64 (n,).
        reward_task: float64 (n,).
        reward_calibration: float64 (n,), NaN where the algorithm has none.
        confidence: float64 (n,), NaN where there is no valid one.
        features: float32 (n, layers, 2, hidden).
    """

    question_id: list[str]
    prompt_ids: list[list[int]]
    response_ids: list[list[int]]
    logprobs: list[np.ndarray]
    text: list[str]
    truncated: np.ndarray
    answer: list[str | None]
    correct: np.ndarray
    group_accuracy: np.ndarray
    reward_task: np.ndarray
    reward_calibration: np.ndarray
    confidence: np.ndarray
    features: np.ndarray


class RolloutRecorder:
    """Keeps rollouts on disk. Writing a step again, as a resumed run does, replaces it.

    Args:
        folder: for `step-00001.parquet` and so on.
        features: writer of a store that holds all steps.
        dataset: name of the training set.
        group_size: responses a question.
        attributes: provenance.
    """

    def __init__(
        self, folder: Path, features: FeatureWriter, dataset: str, group_size: int, attributes: dict[str, str]
    ):
        self._folder = folder
        self._features = features
        self._dataset = dataset
        self._group_size = group_size
        self._attributes = attributes

    def write(self, step: int, rollouts: Rollouts) -> None:
        """Record the rollouts of `step` (from 1); all steps have the same number of rollouts."""
        count = len(rollouts.response_ids)
        start = (step - 1) * count
        length = np.array([len(ids) for ids in rollouts.response_ids], dtype=np.int64)
        frame = pd.DataFrame(
            {
                "dataset": self._dataset,
                "question_id": rollouts.question_id,
                "response_id": np.arange(start, start + count),
                "step": step,
                "sample": np.arange(count) % self._group_size,
                "prompt_ids": rollouts.prompt_ids,
                "response_ids": rollouts.response_ids,
                "logprobs": rollouts.logprobs,
                "text": rollouts.text,
                "length": length,
                "finish_reason": np.where(rollouts.truncated, "length", "stop"),
                "truncated": rollouts.truncated,
                "mean_logprob": [float(np.mean(values, dtype=np.float64)) for values in rollouts.logprobs],
                "answer": pd.array(rollouts.answer, dtype="str"),
                "correct": rollouts.correct,
                "group_accuracy": rollouts.group_accuracy,
                "reward_task": rollouts.reward_task,
                "reward_calibration": rollouts.reward_calibration,
                "confidence": rollouts.confidence,
                "p_true": np.nan,
            }
        )
        self._features.write(start, frame["response_id"].to_numpy(), length, rollouts.features)
        write_frame(step_file(self._folder, step), frame, RESPONSES, self._attributes)

    def missing(self, steps: int) -> list[int]:
        """Steps up to `steps` without a table."""
        return [step for step in range(1, steps + 1) if not step_file(self._folder, step).exists()]

    def require(self, steps: int) -> None:
        """Raise ContractError if a step's rollouts are missing."""
        missing = self.missing(steps)
        if missing:
            raise ContractError(f"{self._folder}: rollouts of step {missing[0]} are missing; delete the run, rerun")


def step_file(folder: Path, step: int) -> Path:
    """Table of a step; names sort in the order of the steps."""
    return folder / f"step-{step:05d}.parquet"
