"""From completions to rows of the responses table: one way for rollouts, resampling and evaluation."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cocal.answers.confidence import parse_confidence
from cocal.answers.extraction import extract_answer
from cocal.checkpoints.text import Tokens
from cocal.generation.engine import Completion


def stated_confidences(texts: Sequence[str], prompt_format: str) -> np.ndarray:
    """Verbalised confidences, float64 (n,): NaN without a valid one, and where the format asks for none."""
    asked = prompt_format != "answer"
    return np.array([parse_confidence(text) if asked else None for text in texts], dtype=np.float64)


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
    """Rows in the contract of cocal.store.contracts.SAMPLED, without rewards and P(True).

    Args:
        completions: n responses, the `group_size` of a question consecutive.
        texts: of `cocal.checkpoints.text.plain_texts`; answers and confidences are read from them.
        prompt_format: says whether a confidence was asked for.
        dataset: name of the question set.
        question_ids: of each response.
        prompt_ids: of each response.
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
            "answer": pd.array([extract_answer(text) for text in texts], dtype="str"),
            "reward_task": np.nan,
            "reward_calibration": np.nan,
            "confidence": stated_confidences(texts, prompt_format),
            "p_true": np.nan,
            "p_true_mass": np.nan,
        }
    )
