"""The objectives of RLCR and DCPO, as functions of arrays and for anybody's training with TRL (appendix B.2).

`rlcr` turns a reward function that says whether answers are right into RLCR's for TRL's `GRPOTrainer`, and
`dcpo_advantages` gives such a trainer the advantages of DCPO. Responses state their confidence as `CONFIDENCE: 0.83`,
last and on a line of its own; `cocal.answers.extraction` has the grammar.

In arrays, rows are responses, and the G responses to one question are consecutive; `confidence` is NaN where a response
states no valid one, for which the paper names no reward. Its confidence error is then `invalid`, by default 1, the
worst case, so that leaving the confidence out never pays.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cocal.answers.extraction import confidence_span, parse_confidence, token_of

if TYPE_CHECKING:
    from trl import GRPOTrainer

GROUP_EPSILON = 1e-4
"""Added to the standard deviation of a group's rewards, as in TRL. The paper does not state it."""
RewardFunction = Callable[..., list[float | None]]


class Rewards(NamedTuple):
    """Rewards of n responses, float64 of shape (n,); `calibration` is None for an algorithm without such a reward."""

    task: np.ndarray
    calibration: np.ndarray | None


def group_accuracy(correct: ArrayLike, group_size: int) -> np.ndarray:
    """Mean correctness of each response's group, float64 of shape (n,) (section 4.2)."""
    groups = np.asarray(correct, dtype=np.float64).reshape(-1, group_size)
    return np.repeat(groups.mean(axis=1), group_size)


def group_advantages(rewards: ArrayLike, group_size: int, scale: Literal["group", "none"] = "group") -> np.ndarray:
    """(r - mean) / (std + epsilon) within each group, float64 of shape (n,) (equation 1).

    As in TRL with `scale_rewards="group"`, std is the sample standard deviation (divisor G - 1), and a group of equal
    rewards gets zeros. With the scale "none", nothing is divided.
    """
    groups = np.asarray(rewards, dtype=np.float64).reshape(-1, group_size)
    centred = groups - groups.mean(axis=1, keepdims=True)
    if scale == "none":
        return centred.ravel()
    return (centred / (groups.std(axis=1, ddof=1, keepdims=True) + GROUP_EPSILON)).ravel()


def rlcr_calibration(correct: ArrayLike, confidence: ArrayLike, invalid: float = 1.0) -> np.ndarray:
    """-(c - y)^2 of n responses, float64 of shape (n,); RLCR's reward is the sum of this and y."""
    return -(_error(confidence, np.asarray(correct, dtype=np.float64), invalid) ** 2)


def dcpo_calibration(
    correct: ArrayLike, confidence: ArrayLike, group_size: int, group_weight: float = 0.5, invalid: float = 1.0
) -> np.ndarray:
    """DCPO's reward of n responses, float64 of shape (n,): minus the distance of c from (1 - w) y + w mean(y).

    The weight w is `group_weight`, the paper's lambda, and the mean is that of the group.
    """
    task = np.asarray(correct, dtype=np.float64)
    target = (1.0 - group_weight) * task + group_weight * group_accuracy(task, group_size)
    return -_error(confidence, target, invalid)


def _error(confidence: ArrayLike, target: np.ndarray, invalid: float) -> np.ndarray:
    stated = np.asarray(confidence, dtype=np.float64)
    return np.where(np.isnan(stated), invalid, np.abs(stated - target))


def token_advantages(task: ArrayLike, calibration: ArrayLike, starts: Sequence[int], length: int) -> np.ndarray:
    """DCPO's token advantages, (n, length): those of the task before `starts`, and those of calibration from there on.

    Args:
        task, calibration: Advantages of each response's correctness and of its calibration reward, (n,).
        starts: Index of each response's first confidence token; at least its length if it has none.
        length: Padded length of the responses.
    """
    of_confidence = np.arange(length) >= np.asarray(starts)[:, None]
    return np.where(of_confidence, np.asarray(calibration)[:, None], np.asarray(task)[:, None])


def confidence_start(ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> int:
    """Index of the first token that holds a part of the confidence statement; len(ids) if there is none.

    A token that spans the line break before the statement and its first letters belongs to the confidence.

    Args:
        ids: Response tokens; the end-of-sequence token counts as part of the confidence.
        decode: Function that returns the text of token ids, without special tokens and with spaces untouched.
    """
    span = confidence_span(decode(ids))
    return len(ids) if span is None else token_of(ids, decode, span[0])


def stated_confidences(texts: Sequence[str], prompt_format: str | None = None) -> np.ndarray:
    """The confidence that each text states, float64 (n,), NaN without a valid one or where the format asks for none."""
    asked = prompt_format != "answer"
    return np.array([parse_confidence(text) if asked else None for text in texts], dtype=np.float64)


def rlcr(correctness: RewardFunction, *, invalid: float = 1.0) -> RewardFunction:
    """RLCR's reward y - (c - y)^2 as a reward function of TRL, which normalises it within the group.

    Args:
        correctness: A reward function of TRL whose value is 1 for a right answer, 0 for a wrong one, and None where
            there is no verdict: such a response has no reward, and TRL leaves it out.
    """

    def rlcr_reward(completions: Sequence[Any], **columns: Any) -> list[float | None]:
        correct = np.array(correctness(completions=completions, **columns), dtype=np.float64)
        texts = [completion if isinstance(completion, str) else completion[-1]["content"] for completion in completions]
        rewards = correct + rlcr_calibration(correct, stated_confidences(texts), invalid)
        return [None if np.isnan(right) else value for right, value in zip(correct, rewards.tolist(), strict=True)]

    return rlcr_reward


def dcpo_advantages(
    trainer: "GRPOTrainer", *, correctness: int = 0, group_weight: float = 0.5, invalid: float = 1.0
) -> None:
    """Replace a trainer's advantages by DCPO's advantages of single tokens, before its training begins.

    The task advantage goes to the tokens of reasoning and answer, the calibration advantage to those of the confidence;
    each is normalised within the group. The mean calibration reward is logged as `rewards/calibration/mean`.

    Args:
        correctness: Index of the trainer's reward function that is 1 for a right answer and 0 for a wrong one. A
            response without a verdict (None) has no effect. The other reward functions are logged and have no effect.
        group_weight: See `dcpo_calibration`; the authors' and the paper's is 0.5.
    """
    import torch
    from accelerate.utils import gather_object

    from cocal.models.text import plain_texts

    calculate, generate = trainer._calculate_rewards, trainer._generate_and_score_completions
    tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
    latest: dict[str, Any] = {}

    def calculated(inputs, prompts, completions, ids):
        latest["ids"], latest["rewards"] = ids, calculate(inputs, prompts, completions, ids)
        return latest["rewards"]

    def generated(inputs):
        """TRL's batch with DCPO's advantages (rows, length)."""
        batch = generate(inputs)
        training = trainer.model.training
        size = trainer.num_generations if training else trainer.num_generations_eval
        ids, length = latest["ids"], batch["completion_ids"].shape[1]
        confidence = stated_confidences(gather_object(plain_texts(tokenizer, ids)))
        verdicts = latest["rewards"][:, correctness].cpu().numpy()
        correct = verdicts > 0.5  # no verdict counts as wrong in its group
        calibration = dcpo_calibration(correct, confidence, size, group_weight, invalid)
        own = slice(trainer.accelerator.process_index * len(ids), (trainer.accelerator.process_index + 1) * len(ids))
        task, stated = (group_advantages(part, size)[own] for part in (correct, calibration))
        starts = [confidence_start(response, lambda part: plain_texts(tokenizer, [part])[0]) for response in ids]
        advantages = token_advantages(task, stated, starts, length) * ~np.isnan(verdicts[own, None])
        batch["advantages"] = torch.as_tensor(advantages, dtype=torch.float32, device=batch["completion_ids"].device)
        trainer._metrics["train" if training else "eval"]["rewards/calibration/mean"].append(float(calibration.mean()))
        return batch

    trainer._calculate_rewards, trainer._generate_and_score_completions = calculated, generated
