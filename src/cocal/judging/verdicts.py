"""Verdicts for tables of sampled responses."""

from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd

from cocal.answers.judge import ExactMatch, Judge
from cocal.errors import ContractError


def with_verdicts(
    sampled: pd.DataFrame, asked: pd.DataFrame, groups: Sequence[Hashable], judge: Judge, *, pool: bool
) -> pd.DataFrame:
    """Responses in the contract of cocal.store.contracts.RESPONSES.

    Args:
        sampled: in the contract of cocal.store.contracts.SAMPLED.
        asked: question of each response (columns question, answer, aliases, domain).
        groups: group of each response, over which its accuracy is the mean and within which answers are compared.
        judge: decides correctness and equivalence.
        pool: whether the answers of each group are compared with one another.
    """
    golds = [[answer, *aliases] for answer, aliases in zip(asked["answer"], asked["aliases"], strict=True)]
    answers = [None if pd.isna(answer) else answer for answer in sampled["answer"]]
    texts = asked["question"].tolist()
    correct, decided = judge.correct(golds, answers, texts)
    classes = np.nan
    if pool:
        labels, settled = judge.classes(answers, groups, texts)
        classes, decided = labels.astype(np.float64), decided & settled
    factual = (asked["domain"] == "factual").to_numpy()
    exact = pd.Series(ExactMatch().correct(golds, answers, texts).values, dtype="boolean").where(factual)
    accuracy = pd.Series(correct).groupby(np.asarray(groups)).transform("mean").to_numpy(dtype=np.float64)
    return sampled.assign(
        answer_class=classes,
        correct=correct,
        exact_match=exact.array,
        decided=decided,
        group_accuracy=accuracy,
    )


def judge_set(sampled: pd.DataFrame, questions: pd.DataFrame, judge: Judge, *, pool: bool, source: str) -> pd.DataFrame:
    """The same for evaluation responses: all responses to a question are a group.

    Args:
        sampled: in the contract of cocal.store.contracts.SAMPLED, rows in any order.
        questions: the set that was asked (cocal.store.contracts.QUESTIONS).
        judge: decides correctness and equivalence.
        pool: whether the answers to each question are compared with one another.
        source: name of the responses for errors.

    Raises:
        ContractError: if a response belongs to another set, or to no question of the set.
    """
    texts = questions.set_index("question_id")[["dataset", "question", "answer", "aliases", "domain"]]
    ids = sampled["question_id"]
    unknown = np.flatnonzero(~ids.isin(texts.index) | (sampled["dataset"] != texts["dataset"].iloc[0]))
    if len(unknown):
        first = unknown[0]
        raise ContractError(
            f"{source}: question {ids.iloc[first]!r} of set {sampled['dataset'].iloc[first]!r}, at row {first}, is not "
            f"among the questions of {texts['dataset'].iloc[0]!r} ({len(unknown)} such row(s)); give the set that was "
            "asked"
        )
    return with_verdicts(sampled, texts.loc[ids], ids.tolist(), judge, pool=pool)
