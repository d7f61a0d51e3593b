"""The rewards and advantages of each algorithm, as pure functions of arrays that all engines share (appendix B.2).

Rows are responses; the G responses to one question are consecutive. `correct` is the verifier's y in {0, 1};
`confidence` is the parsed c in [0, 1], or NaN where the response states no valid one.

The paper does not say which calibration reward a response without a valid confidence gets. Here it gets that of a fixed
confidence error |c - y|, `invalid_confidence`. The default of 1 is the worst case, so that leaving the confidence out
never pays.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from cocal.answers.extraction import confidence_span, token_of
from cocal.config.base import AdvantageScale, Algorithm

PROMPT_FORMATS: dict[Algorithm, str] = {"grpo": "answer", "rlcr": "rlcr", "dcpo": "dcpo"}
"""Prompt format of each algorithm's responses, in training and evaluation."""
GROUP_EPSILON = 1e-4
"""Added to the standard deviation of a group's rewards, as in TRL. The paper does not state it."""


class RewardSettings(Protocol):
    """What rewards and advantages depend on; `cocal.config.policy.PolicySettings` describes these fields."""

    responses_per_question: int
    dcpo_group_weight: float
    invalid_confidence: float
    advantage_scale: AdvantageScale


class Rewards(NamedTuple):
    """Rewards of n responses, float64 of shape (n,); `calibration` is None for an algorithm without such a reward."""

    task: np.ndarray
    calibration: np.ndarray | None


def group_accuracy(correct: ArrayLike, group_size: int) -> np.ndarray:
    """Mean correctness of each response's group, float64 of shape (n,) (section 4.2)."""
    groups = np.asarray(correct, dtype=np.float64).reshape(-1, group_size)
    return np.repeat(groups.mean(axis=1), group_size)


def group_advantages(rewards: ArrayLike, group_size: int, scale: AdvantageScale = "group") -> np.ndarray:
    """(r - mean) / (std + epsilon) within each group, float64 of shape (n,) (equation 1).

    As in TRL with `scale_rewards="group"`, std is the sample standard deviation (divisor G - 1), and a group of equal
    rewards gets zeros. With the scale "none", nothing is divided.
    """
    groups = np.asarray(rewards, dtype=np.float64).reshape(-1, group_size)
    centred = groups - groups.mean(axis=1, keepdims=True)
    if scale == "none":
        return centred.ravel()
    return (centred / (groups.std(axis=1, ddof=1, keepdims=True) + GROUP_EPSILON)).ravel()


def step_rewards(
    settings: RewardSettings, algorithm: Algorithm, correct: np.ndarray, confidence: np.ndarray
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
    target = task
    if algorithm == "dcpo":
        weight = settings.dcpo_group_weight
        target = (1.0 - weight) * task + weight * group_accuracy(task, settings.responses_per_question)
    error = np.where(np.isnan(confidence), settings.invalid_confidence, np.abs(confidence - target))
    return Rewards(task, -(error**2) if algorithm == "rlcr" else -error)


def step_advantages(
    settings: RewardSettings, algorithm: Algorithm, rewards: Rewards, starts: Sequence[int], length: int
) -> np.ndarray:
    """Advantages of one step: float64 (n,) for whole responses, or (n, length) for single tokens.

    GRPO and RLCR apply one advantage to the whole response; RLCR's is that of the sum of both rewards. DCPO
    normalises its two rewards separately: the task advantage goes to the tokens before `starts`, the calibration
    advantage to the rest. Every token belongs to exactly one of the two.

    Args:
        starts: Index of each response's first confidence token; at least its length if it has none.
        length: Padded length of the responses.
    """
    how = settings.responses_per_question, settings.advantage_scale
    if algorithm == "grpo":
        return group_advantages(rewards.task, *how)
    if algorithm == "rlcr":
        return group_advantages(rewards.task + rewards.calibration, *how)
    task, calibration = (group_advantages(part, *how)[:, None] for part in rewards)
    of_confidence = np.arange(length) >= np.asarray(starts)[:, None]
    return np.where(of_confidence, calibration, task)


def confidence_start(ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> int:
    """Index of the first token that holds a part of the confidence statement; len(ids) if there is none.

    A token that spans the line break before the statement and its first letters belongs to the confidence.

    Args:
        ids: Response tokens; the end-of-sequence token counts as part of the confidence.
        decode: Function that returns the text of token ids, without special tokens and with spaces untouched.
    """
    span = confidence_span(decode(ids))
    return len(ids) if span is None else token_of(ids, decode, span[0])
