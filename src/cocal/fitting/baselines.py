"""Baselines on the responses that a companion is measured on: confidences that need no states.

Each is a logistic regression on a few numbers, fitted out of fold as the companion is, which anybody could have from
the same labels. Each also reads whether the response was truncated, if this is known.
"""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cocal.answers.extraction import extract_answer
from cocal.answers.spelling import canonical_integer, plain_answer
from cocal.features.extract import TOKEN_INPUTS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from cocal.rollouts.experience import Experience

FLAG, LENGTH, TOKENS = "cut or not", "length, recalibrated", "token probability, recalibrated"
NUMBERS, GROUP = "four token numbers, recalibrated", "agreement of the group, recalibrated"
"""Names of the baselines, on cards as in the published comparison; the length is the number of tokens and its
logarithm, and the four numbers are `token_inputs` and this logarithm."""


def baselines_of(
    experience: "Experience", fold: np.ndarray, tokens: np.ndarray | None, tokenizer: "PreTrainedTokenizerBase"
) -> dict[str, np.ndarray]:
    """The `baselines` of all rollouts; `tokens` are their `token_inputs` (`cocal.features.extract`), or None."""
    rows, agreed = experience.rows, None
    if rows["sample"].max() > 0:
        texts = tokenizer.batch_decode(rows["response_ids"].tolist(), skip_special_tokens=True)
        agreed = agreement([*zip(rows["step"], rows["group"], strict=True)], [*map(extract_answer, texts)])
    truncated = rows["truncated"].to_numpy() if experience.tells_truncated else None
    return baselines(rows["correct"].to_numpy(), fold, truncated, rows["length"].to_numpy(), tokens, agreed)


def baselines(
    correct: np.ndarray,
    fold: np.ndarray,
    truncated: np.ndarray | None,
    length: np.ndarray,
    tokens: np.ndarray | None,
    agreed: np.ndarray | None,
) -> dict[str, np.ndarray]:
    """Out-of-fold confidences, float64 (n,), of all baselines whose inputs are known, by their names.

    Args:
        correct, fold: bool and int64 (n,), the labels as they are learnt and measured, and the folds of the questions.
        truncated, length, agreed: bool, int64 and float64 (n,), whether each response was cut at the limit, its number
            of tokens, and its `agreement`.
        tokens: float (n, k), `token_inputs`, perhaps followed by those of prefixes, or the mean token probability
            alone. None if not known, as for `truncated` and `agreed`.
    """
    flag = [] if truncated is None else [truncated]
    columns = {} if truncated is None or truncated.all() or not truncated.any() else {FLAG: []}
    columns[LENGTH] = [np.log(length), length]  # a few short guesses bend a curve of the logarithm alone
    if tokens is not None:
        columns[TOKENS] = [tokens[:, 0]]
        if tokens.shape[1] >= TOKEN_INPUTS:
            columns[NUMBERS] = [*tokens.T[:TOKEN_INPUTS], np.log(length)]
    if agreed is not None:
        columns[GROUP] = [agreed]
    return {name: recalibrated(np.stack([*some, *flag], axis=1), correct, fold) for name, some in columns.items()}


def recalibrated(numbers: np.ndarray, correct: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Out-of-fold confidences, float64 (n,), of a logistic regression of bool (n,) on standardised numbers (n, k).

    Half of the sum of squared weights is added to the loss, so that they stay finite if a number separates the labels.
    """
    from scipy.optimize import minimize

    confidence = np.empty(len(correct))
    for k in np.unique(fold):
        train, label = fold != k, correct[fold != k].astype(np.float64)
        scale = numbers[train].std(axis=0, dtype=np.float64)
        inputs = (numbers - numbers[train].mean(axis=0, dtype=np.float64)) / np.where(scale, scale, 1.0)

        def loss(at: np.ndarray, known: np.ndarray = inputs[train], label: np.ndarray = label):
            logit = known @ at[1:] + at[0]
            error = 1 / (1 + np.exp(-logit)) - label
            value = np.logaddexp(0, logit).sum() - label @ logit + at[1:] @ at[1:] / 2
            return value, np.array([error.sum(), *(error @ known + at[1:])])

        def curvature(at: np.ndarray, known: np.ndarray = inputs[train]):
            right = 1 / (1 + np.exp(-(known @ at[1:] + at[0])))
            columns = np.column_stack([np.ones(len(known)), known])
            return columns.T @ (columns * (right * (1 - right))[:, None]) + np.diag([0.0, *np.ones(known.shape[1])])

        at = minimize(loss, np.zeros(1 + inputs.shape[1]), jac=True, hess=curvature, method="trust-exact").x
        confidence[fold == k] = 1 / (1 + np.exp(-(inputs[fold == k] @ at[1:] + at[0])))
    return confidence


def agreement(groups: Sequence[Hashable], answers: Sequence[str | None]) -> np.ndarray | None:
    """For each response, the share of the other responses of its group that have the same answer, float64 (n,); 0 if it
    has no answer or there are no others. None if no group has two responses, or no response has an answer."""
    forms = [None if text is None else canonical_integer(plain_answer(text)) or plain_answer(text) for text in answers]
    table = pd.DataFrame({"group": groups, "answer": forms})
    same = table.groupby(["group", "answer"])["group"].transform("size").fillna(1.0) - 1
    others = table.groupby("group")["group"].transform("size") - 1
    if table["answer"].isna().all() or not others.any():
        return None
    return (same / others.clip(lower=1)).to_numpy(np.float64)
