"""Verdicts for tables of sampled responses."""

from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd

from cocal.answers.judge import ExactMatch, Judge
from cocal.errors import ContractError


def with_verdicts(
    sampled: pd.DataFrame, asked: pd.DataFrame, groups: Sequence[Hashable], judge: Judge, *, pool: bool
) -> pd.DataFrame:
    """Add verdicts to sampled responses (`cocal.store.contracts.RESPONSES`).

    Args:
        sampled: Table of responses (`cocal.store.contracts.SAMPLED`).
        asked: Question of each response (columns question, answer, aliases, domain).
        groups: Group of each response. The group accuracy is the mean over a group, and answers are compared within it.
        judge: Judge of correctness and equivalence.
        pool: True if the answers of each group are compared with one another.
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
        answer_class=classes, correct=correct, exact_match=exact.array, decided=decided, group_accuracy=accuracy
    )


def judge_set(sampled: pd.DataFrame, questions: pd.DataFrame, judge: Judge, *, pool: bool, source: str) -> pd.DataFrame:
    """Add verdicts to evaluation responses, where all responses to a question form a group.

    Args:
        sampled: Table of responses (`cocal.store.contracts.SAMPLED`), in any order.
        questions: The question set of the responses (`cocal.store.contracts.QUESTIONS`).
        judge: Judge of correctness and equivalence.
        pool: True if the answers to each question are compared with one another.
        source: Name of the responses in error messages.

    Raises:
        ContractError: if a response belongs to another set, or its question is not in the set.
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
