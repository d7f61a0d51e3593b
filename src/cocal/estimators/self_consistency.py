"""SelfConsis: agreement of sampled responses with the evaluated one (appendix B.1)."""

from collections.abc import Hashable, Sequence
from pathlib import Path

import numpy as np

from cocal.errors import ConfigError, ContractError
from cocal.estimators.registry import Method
from cocal.estimators.responses import Estimator, Inputs, Responses
from cocal.schemas import QUESTIONS
from cocal.store import read_frame
from cocal.verify.judge import Judge

COLUMNS = ("answer",)


def self_consistency(
    answers: Sequence[str | None], pools: Sequence[Hashable], judge: Judge, questions: Sequence[str] = ()
) -> np.ndarray:
    """Share of each response's pool, itself included, whose answer is equivalent to its own.

    Args:
        answers: extracted answers of n responses, None without one.
        pools: pool of each response (any hashable, such as the question's id).
        judge: decides equivalence.
        questions: text of each response's question, where the judge needs it.

    Returns:
        float64 (n,) in (0, 1]; NaN without an answer. A response without an answer counts in the size of its pool.
    """
    _, pool, sizes = np.unique(np.asarray(pools), return_inverse=True, return_counts=True)
    labels = judge.classes(answers, pools, questions)
    answered = labels >= 0
    shares = np.full(len(labels), np.nan)
    shares[answered] = np.bincount(labels[answered])[labels[answered]] / sizes[pool[answered]]
    return shares


def estimate(methods: Sequence[Method], responses: Responses, inputs: Inputs) -> dict[Estimator, np.ndarray]:
    """Self-consistency of the evaluated responses within pools of `inputs.pool` responses a question.

    A response without an answer gets 0 or no confidence, as `settings.missing_answer` says.

    Raises:
        ConfigError: if the texts of factual questions are not given.
        ContractError: if a question has another number of responses, or is not among the questions.
    """
    pool = responses.pool
    sizes = pool["question_id"].value_counts(sort=False)
    wrong = sizes[sizes != inputs.pool]
    if len(wrong):
        raise ContractError(
            f"{responses.path}: question {wrong.index[0]!r} has {wrong.iloc[0]} responses ({len(wrong)} such "
            f"question(s)), self-consistency needs a pool of {inputs.pool}; sample the responses with that pool"
        )
    answers = [
        None if missing else answer for answer, missing in zip(pool["answer"], pool["answer"].isna(), strict=True)
    ]
    judge = inputs.judges[responses.domain]
    shares = self_consistency(answers, pool["question_id"].tolist(), judge, _questions(responses, inputs.questions))
    if inputs.settings.missing_answer == "zero":
        shares = np.nan_to_num(shares, nan=0.0)
    by_response = dict(zip(pool["response_id"], shares, strict=True))
    confidence = responses.evaluated["response_id"].map(by_response).to_numpy(dtype=np.float64)
    return {Estimator(method.name): confidence for method in methods}


def _questions(responses: Responses, folder: Path | None) -> list[str]:
    """Text of the question of each response of the pool; nothing for mathematics, which is judged without it."""
    if responses.domain == "mathematics":
        return []
    if folder is None:
        raise ConfigError(f"{responses.dataset}: a judge of factual answers reads the questions; give --questions")
    path = folder / f"{responses.dataset}.parquet"
    texts = read_frame(path, QUESTIONS, ["dataset", "question_id", "question"]).set_index("question_id")["question"]
    asked = responses.pool["question_id"]
    unknown = asked[~asked.isin(texts.index)]
    if len(unknown):
        raise ContractError(f"{path}: question {unknown.iloc[0]!r} of {responses.path} is not in it")
    return texts.loc[asked].tolist()
