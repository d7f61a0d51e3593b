"""What each algorithm optimises: rewards and advantages from verdicts and confidences (appendix B.2).

Pure functions of arrays: the trainer only supplies the numbers of a step and receives its advantages.
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
    """Reward parts of a step.

    Args:
        settings: group size, lambda, and what a missing confidence costs.
        algorithm: which objective.
        correct: bool (n,), groups consecutive.
        confidence: float64 (n,), NaN without a valid one.
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
    """Advantages of a step: float64 (n,) for whole sequences, or (n, length) for single tokens.

    GRPO and RLCR apply one advantage to the whole sequence; RLCR's is that of the sum of both rewards. DCPO
    normalises its two rewards separately: the task advantage goes to the tokens before `starts`, the calibration
    advantage to the rest. Every token belongs to exactly one of the two.

    Args:
        settings: group size.
        algorithm: which objective.
        rewards: of `step_rewards`.
        starts: index of each response's first confidence token; its length or more if it has none.
        length: padded length of the responses.
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

    A token that joins the line break with the word's first letters belongs to the confidence.

    Args:
        ids: response tokens; the end-of-sequence token counts as part of the confidence.
        decode: text of token ids, special tokens left out, spaces untouched.
    """
    text = decode(ids)
    span = confidence_span(text)
    if span is None:
        return len(ids)
    return token_of(ids, decode, span[0])
