"""The rewards and advantages of each algorithm under the settings of a study, which all engines share (appendix B.2).

`cocal.rewards` has them as functions of arrays. Rows are responses; the G responses to one question are consecutive.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cocal.rewards import Rewards, dcpo_calibration, group_advantages, rlcr_calibration, token_advantages
from cocal.settings.base import Algorithm

if TYPE_CHECKING:
    from cocal_study.config.policy import PolicySettings

Calibration = Callable[["PolicySettings", np.ndarray, np.ndarray], np.ndarray]
"""Function that computes calibration rewards, float64 (n,), from the settings of a training, verdicts, float64 (n,) of
0 and 1 in groups, and stated confidences, float64 (n,), NaN where there is no valid one."""


class Objective(NamedTuple):
    """What an algorithm trains a policy for.

    Attributes:
        prompt_format: Prompt format of its responses, in training and evaluation; one with a confidence to be stated
            where there is a calibration reward.
        calibration: Its calibration reward; None if it rewards right answers alone.
        by_token: Whether each reward has advantages of its own, those of calibration for the tokens that state the
            confidence; otherwise those of the sum go to the whole response.
    """

    prompt_format: str
    calibration: Calibration | None = None
    by_token: bool = False


def _rlcr(settings: "PolicySettings", task: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """-(c - y)^2."""
    return rlcr_calibration(task, confidence, settings.invalid_confidence)


def _dcpo(settings: "PolicySettings", task: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """-|c - y_DCPO| with y_DCPO = (1 - lambda) y + lambda mean(y), lambda = `dcpo_group_weight`."""
    size, weight = settings.responses_per_question, settings.dcpo_group_weight
    return dcpo_calibration(task, confidence, size, weight, settings.invalid_confidence)


OBJECTIVES: dict[Algorithm, Objective] = {
    "grpo": Objective("answer"),
    "rlcr": Objective("rlcr", _rlcr),
    "dcpo": Objective("dcpo", _dcpo, by_token=True),
}
"""The objectives of the algorithms; docs/architecture.md says what else a new one needs."""


def step_rewards(
    settings: "PolicySettings", algorithm: Algorithm, correct: np.ndarray, confidence: np.ndarray
) -> Rewards:
    """Task and calibration rewards of the responses of one step under the settings of a training. The task reward is y
    (section 3), the correctness, bool (n,), of responses whose groups are consecutive; a stated confidence, float64
    (n,), is NaN where there is no valid one."""
    task, calibration = np.asarray(correct, dtype=np.float64), OBJECTIVES[algorithm].calibration
    return Rewards(task, calibration and calibration(settings, task, confidence))


def step_advantages(
    settings: "PolicySettings", algorithm: Algorithm, rewards: Rewards, starts: Sequence[int], length: int
) -> np.ndarray:
    """Advantages of one step: float64 (n,) for whole responses, or (n, length) for single tokens.

    GRPO and RLCR apply one advantage to the whole response; RLCR's is that of the sum of both rewards. DCPO
    normalises its two rewards separately: the task advantage goes to the tokens before `starts`, the calibration
    advantage to the rest. Every token belongs to exactly one of the two. A start is the index of the response's first
    confidence token, at least its length if it has none; `length` is the padded length of the responses.
    """
    objective = OBJECTIVES[algorithm]
    how = settings.responses_per_question, settings.advantage_scale
    if objective.by_token:
        task, calibration = (group_advantages(np.asarray(part), *how) for part in rewards)
        return token_advantages(task, calibration, starts, length)
    return group_advantages(rewards.task + rewards.calibration if objective.calibration else rewards.task, *how)
