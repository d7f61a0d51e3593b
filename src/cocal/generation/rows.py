"""Turns completions into rows of the response table, for rollouts, resampling and evaluation alike."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cocal.answers.extraction import extract_answer, parse_confidence
from cocal.generation.engine import Completion
from cocal.models.text import Tokens


def stated_confidences(texts: Sequence[str], prompt_format: str) -> np.ndarray:
    """Parse verbalised confidences, float64 (n,), NaN if there is no valid one or the format does not ask for one."""
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
    """Build rows of a response table (`cocal.store.contracts.SAMPLED`) without rewards and P(True).

    Args:
        completions: n responses; the `group_size` responses to a question are consecutive.
        texts: Texts from `cocal.models.text.plain_texts`, from which answers and confidences are parsed.
        prompt_format: Prompt format; "answer" does not ask for a confidence.
        dataset: Name of the question set.
        question_ids: Question id of each response.
        prompt_ids: Prompt token ids of each response.
        group_size: Number of responses per question.
        step: Rollout step of the responses, or of the checkpoint.
        first: Id of the first response.
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
