"""The rewards and advantages of each algorithm, as pure functions of arrays that all engines share (appendix B.2).

Rows are responses; the G responses to one question are consecutive. `correct` is the verifier's y in {0, 1};
`confidence` is the parsed c in [0, 1], or NaN where the response states no valid one.

The paper does not say which calibration reward a response without a valid confidence gets. Here it gets that of a fixed
confidence error |c - y|, `invalid_confidence`. The default of 1 is the worst case, so that leaving the confidence out
never pays.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cocal.answers.extraction import confidence_span, token_of
from cocal.config.policy import Algorithm, PolicySettings

PROMPT_FORMATS: dict[Algorithm, str] = {"grpo": "answer", "rlcr": "rlcr", "dcpo": "dcpo"}
"""Prompt format of each algorithm's responses, in training and evaluation."""
GROUP_EPSILON = 1e-4
"""Added to the standard deviation of a group's rewards, as in TRL. The paper does not state it."""


class Rewards(NamedTuple):
    """Rewards of n responses, float64 of shape (n,); `calibration` is None for an algorithm without such a reward."""

    task: np.ndarray
    calibration: np.ndarray | None


def group_accuracy(correct: ArrayLike, group_size: int) -> np.ndarray:
    """Mean correctness of each response's group, float64 of shape (n,) (section 4.2).

    Raises:
        ValueError: if the rows are not whole groups.
    """
    groups = _groups(_labels(correct), group_size)
    return np.repeat(groups.mean(axis=1), group_size)


def grpo_rewards(correct: ArrayLike) -> Rewards:
    """GRPO: the reward is correctness (section 3)."""
    return Rewards(_labels(correct), None)


def rlcr_rewards(correct: ArrayLike, confidence: ArrayLike, invalid_confidence: float = 1.0) -> Rewards:
    """RLCR: y and -(c - y)^2; their sum is the reward of the whole sequence (appendix B.2)."""
    task = _labels(correct)
    return Rewards(task, -(_error(confidence, task, invalid_confidence) ** 2))


def dcpo_rewards(
    correct: ArrayLike,
    confidence: ArrayLike,
    group_size: int,
    group_weight: float = 0.5,
    invalid_confidence: float = 1.0,
) -> Rewards:
    """DCPO: y for the reasoning-and-answer tokens, -|c - y_DCPO| for the confidence tokens (appendix B.2).

    y_DCPO = (1 - lambda) y + lambda mean(y), lambda = `group_weight`. The two rewards are normalised separately.

    Raises:
        ValueError: if the rows are not whole groups.
    """
    task = _labels(correct)
    target = (1.0 - group_weight) * task + group_weight * group_accuracy(task, group_size)
    return Rewards(task, -_error(confidence, target, invalid_confidence))


def group_advantages(rewards: ArrayLike, group_size: int, epsilon: float = GROUP_EPSILON) -> np.ndarray:
    """(r - mean) / (std + epsilon) within each group, float64 of shape (n,) (equation 1).

    As in TRL with `scale_rewards="group"`, std is the sample standard deviation (divisor G - 1), and a group of equal
    rewards gets zeros.

    Raises:
        ValueError: if the rows are not whole groups of at least two, or a reward is not finite.
    """
    groups = _groups(np.asarray(rewards, dtype=np.float64), group_size)
    if group_size < 2:
        raise ValueError("an advantage needs groups of at least two responses")
    if not np.isfinite(groups).all():
        raise ValueError("rewards must be finite")
    centred = groups - groups.mean(axis=1, keepdims=True)
    return (centred / (groups.std(axis=1, ddof=1, keepdims=True) + epsilon)).ravel()


def step_rewards(
    settings: PolicySettings, algorithm: Algorithm, correct: np.ndarray, confidence: np.ndarray
) -> Rewards:
    """Task and calibration rewards of the responses of one step.

    Args:
        settings: Settings of the training: group size, lambda, and the confidence error of a missing confidence.
        algorithm: Algorithm of the training.
        correct: Correctness, bool (n,); the responses of a group are consecutive.
        confidence: Stated confidence, float64 (n,); NaN where there is no valid one.
    """
    invalid = settings.invalid_confidence
    if algorithm == "rlcr":
        return rlcr_rewards(correct, confidence, invalid)
    if algorithm == "dcpo":
        size, weight = settings.responses_per_question, settings.dcpo_group_weight
        return dcpo_rewards(correct, confidence, size, weight, invalid)
    return grpo_rewards(correct)


def step_advantages(
    settings: PolicySettings, algorithm: Algorithm, rewards: Rewards, starts: Sequence[int], length: int
) -> np.ndarray:
    """Advantages of one step: float64 (n,) for whole responses, or (n, length) for single tokens.

    GRPO and RLCR apply one advantage to the whole response; RLCR's is that of the sum of both rewards. DCPO
    normalises its two rewards separately: the task advantage goes to the tokens before `starts`, the calibration
    advantage to the rest. Every token belongs to exactly one of the two.

    Args:
        settings: Settings of the training, for the group size.
        algorithm: Algorithm of the training.
        rewards: Result of `step_rewards`.
        starts: Index of each response's first confidence token; at least its length if it has none.
        length: Padded length of the responses.
    """
    size = settings.responses_per_question
    if algorithm == "grpo":
        return group_advantages(rewards.task, size)
    if algorithm == "rlcr":
        return group_advantages(rewards.task + rewards.calibration, size)
    task, calibration = (group_advantages(part, size)[:, None] for part in rewards)
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


def _labels(correct: ArrayLike) -> np.ndarray:
    labels = np.asarray(correct, dtype=np.float64)
    if not np.isin(labels, (0.0, 1.0)).all():
        raise ValueError("correct must hold only 0 and 1")
    return labels


def _error(confidence: ArrayLike, target: np.ndarray, invalid_confidence: float) -> np.ndarray:
    """|c - target|, and `invalid_confidence` where c is NaN."""
    stated = np.asarray(confidence, dtype=np.float64)
    if stated.shape != target.shape:
        raise ValueError(f"{stated.size} confidences for {target.size} responses")
    if ((stated < 0) | (stated > 1)).any():
        raise ValueError("a confidence must lie in [0, 1], or be NaN where there is no valid one")
    return np.where(np.isnan(stated), invalid_confidence, np.abs(stated - target))


def _groups(values: np.ndarray, group_size: int) -> np.ndarray:
    """The values (n,) in the shape (n / group_size, group_size)."""
    if values.ndim != 1 or group_size < 1 or values.size == 0 or values.size % group_size:
        raise ValueError(f"{values.size} rows are not consecutive groups of {group_size}")
    return values.reshape(-1, group_size)
