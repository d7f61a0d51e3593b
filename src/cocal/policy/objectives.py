"""The rewards and advantages of each algorithm, computed from verdicts and confidences (appendix B.2).

They are pure functions of arrays: a trainer supplies the numbers of a step and receives its advantages.
"""

from collections.abc import Callable, Sequence

import numpy as np

from cocal.answers.confidence import confidence_span
from cocal.answers.tokens import token_of
from cocal.config.policy import Algorithm, PolicySettings
from cocal.policy.rewards import Rewards, dcpo_rewards, group_advantages, grpo_rewards, rlcr_rewards

PROMPT_FORMATS: dict[Algorithm, str] = {"grpo": "answer", "rlcr": "rlcr", "dcpo": "dcpo"}
"""Prompt format of each algorithm's responses, in training and evaluation."""


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
    if algorithm == "rlcr":
        return rlcr_rewards(correct, confidence, settings.invalid_confidence)
    if algorithm == "dcpo":
        size, weight = settings.responses_per_question, settings.dcpo_group_weight
        return dcpo_rewards(correct, confidence, size, weight, settings.invalid_confidence)
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
    text = decode(ids)
    span = confidence_span(text)
    if span is None:
        return len(ids)
    return token_of(ids, decode, span[0])
