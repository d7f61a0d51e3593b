"""The rewards and advantages of each algorithm under the settings of a study, which all engines share (appendix B.2).

`cocal.rewards` has them as functions of arrays. Rows are responses; the G responses to one question are consecutive.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cocal.rewards import Rewards, dcpo_calibration, group_advantages, rlcr_calibration, token_advantages
from cocal.settings.base import Algorithm

if TYPE_CHECKING:
    from cocal_study.config.policy import PolicySettings

PROMPT_FORMATS: dict[Algorithm, str] = {"grpo": "answer", "rlcr": "rlcr", "dcpo": "dcpo"}
"""Prompt format of each algorithm's responses, in training and evaluation."""


def step_rewards(
    settings: "PolicySettings", algorithm: Algorithm, correct: np.ndarray, confidence: np.ndarray
) -> Rewards:
    """Task and calibration rewards of the responses of one step.

    The task reward is y (section 3). The calibration reward of RLCR is -(c - y)^2, and that of DCPO is -|c - y_DCPO|
    with y_DCPO = (1 - lambda) y + lambda mean(y), lambda = `dcpo_group_weight` (appendix B.2). GRPO has none.

    Args:
        settings: Settings of the training: group size, lambda, and the confidence error of a missing confidence.
        correct: Correctness, bool (n,); the responses of a group are consecutive.
        confidence: Stated confidence, float64 (n,); NaN where there is no valid one.
    """
    task = np.asarray(correct, dtype=np.float64)
    if algorithm == "grpo":
        return Rewards(task, None)
    invalid = settings.invalid_confidence
    if algorithm == "rlcr":
        return Rewards(task, rlcr_calibration(task, confidence, invalid))
    size, weight = settings.responses_per_question, settings.dcpo_group_weight
    return Rewards(task, dcpo_calibration(task, confidence, size, weight, invalid))


def step_advantages(
    settings: "PolicySettings", algorithm: Algorithm, rewards: Rewards, starts: Sequence[int], length: int
) -> np.ndarray:
    """Advantages of one step: float64 (n,) for whole responses, or (n, length) for single tokens.

    GRPO and RLCR apply one advantage to the whole response; RLCR's is that of the sum of both rewards. DCPO
    normalises its two rewards separately: the task advantage goes to the tokens before `starts`, the calibration
    advantage to the rest. Every token belongs to exactly one of the two. A start is the index of the response's first
    confidence token, at least its length if it has none; `length` is the padded length of the responses.
    """
    how = settings.responses_per_question, settings.advantage_scale
    if algorithm == "grpo":
        return group_advantages(rewards.task, *how)
    if algorithm == "rlcr":
        return group_advantages(rewards.task + rewards.calibration, *how)
    task, calibration = (group_advantages(np.asarray(part), *how) for part in rewards)
    return token_advantages(task, calibration, starts, length)
