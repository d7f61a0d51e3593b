"""From completions to rows of the responses table: one way for rollouts, resampling and evaluation."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from transformers import PreTrainedTokenizerBase

from cocal.answers.confidence import parse_confidence
from cocal.answers.judge import Verdicts
from cocal.generation.engine import Completion, Tokens


def plain_texts(tokenizer: PreTrainedTokenizerBase, ids: Sequence[Tokens]) -> list[str]:
    """Text of each response, special tokens left out, spaces untouched."""
    return tokenizer.batch_decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def stated_confidences(texts: Sequence[str], prompt_format: str) -> np.ndarray:
    """Verbalised confidences, float64 (n,): NaN without a valid one, and where the format asks for none."""
    asked = prompt_format != "answer"
    return np.array([parse_confidence(text) if asked else None for text in texts], dtype=np.float64)


def sampled_rows(
    completions: Sequence[Completion],
    *,
    dataset: str,
    question_ids: Sequence[str],
    prompt_ids: Sequence[Tokens],
    texts: Sequence[str],
    answers: Sequence[str | None],
    confidence: ArrayLike,
    group_size: int,
    step: int,
    first: int = 0,
) -> pd.DataFrame:
    """Rows in the contract of cocal.store.contracts.SAMPLED, without rewards and P(True).

    Args:
        completions: n responses, the `group_size` of a question consecutive.
        dataset: name of the question set.
        question_ids: of each response.
        prompt_ids: of each response.
        texts: of `plain_texts`.
        answers: extracted final answers, None without one.
        confidence: float64 (n,) of `stated_confidences`.
        group_size: responses a question.
        step: rollout step, or the checkpoint's.
        first: id of the first response.
    """
    count = len(completions)
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
            "truncated": [c.finish_reason == "length" for c in completions],
            "mean_logprob": [float(np.mean(c.logprobs, dtype=np.float64)) for c in completions],
            "answer": pd.array(list(answers), dtype="str"),
            "reward_task": np.nan,
            "reward_calibration": np.nan,
            "confidence": confidence,
            "p_true": np.nan,
            "p_true_mass": np.nan,
        }
    )


def response_rows(
    completions: Sequence[Completion],
    *,
    dataset: str,
    question_ids: Sequence[str],
    prompt_ids: Sequence[Tokens],
    texts: Sequence[str],
    answers: Sequence[str | None],
    verdicts: Verdicts,
    confidence: ArrayLike,
    group_size: int,
    step: int,
    first: int = 0,
) -> pd.DataFrame:
    """Rows of rollouts in the contract of cocal.store.contracts.RESPONSES: `sampled_rows`, and `verdicts` about
    correctness.

    Rollouts are of mathematics, and their answers are not compared with one another.
    """
    frame = sampled_rows(
        completions,
        dataset=dataset,
        question_ids=question_ids,
        prompt_ids=prompt_ids,
        texts=texts,
        answers=answers,
        confidence=confidence,
        group_size=group_size,
        step=step,
        first=first,
    )
    return frame.assign(
        answer_class=np.nan,
        correct=verdicts.values,
        exact_match=pd.array([None] * len(frame), dtype="boolean"),
        decided=verdicts.decided,
        group_accuracy=verdicts.values.reshape(-1, group_size).mean(axis=1).repeat(group_size),
    )
