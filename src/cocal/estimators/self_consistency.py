"""SelfConsis: agreement of sampled responses with the evaluated one (appendix B.1)."""

from collections.abc import Sequence

import numpy as np

from cocal.errors import ContractError
from cocal.estimators.registry import Method
from cocal.estimators.responses import Estimator, Inputs, Responses
from cocal.verify.equivalence import Kind, Verifier

COLUMNS = ("answer",)


def self_consistency(
    answers: Sequence[str | None], pools: Sequence[object], verifier: Verifier, kind: Kind
) -> np.ndarray:
    """Share of each response's pool, itself included, whose answer is equivalent to its own.

    Args:
        answers: extracted answers of n responses, None without one.
        pools: pool of each response (any hashable, such as the question).
        verifier: decides equivalence.
        kind: of the answers.

    Returns:
        float64 (n,) in (0, 1]; NaN without an answer. A response without an answer counts in the size of its pool.
    """
    _, pool, sizes = np.unique(np.asarray(pools), return_inverse=True, return_counts=True)
    labels = verifier.classes(answers, pools, kind)
    answered = labels >= 0
    shares = np.full(len(labels), np.nan)
    shares[answered] = np.bincount(labels[answered])[labels[answered]] / sizes[pool[answered]]
    return shares


def estimate(methods: Sequence[Method], responses: Responses, inputs: Inputs) -> dict[Estimator, np.ndarray]:
    """Self-consistency of the evaluated responses within pools of `inputs.pool` responses a question.

    A response without an answer gets 0 or no confidence, as `settings.missing_answer` says.

    Raises:
        ContractError: if a question has another number of responses.
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
    shares = self_consistency(answers, pool["question_id"].tolist(), inputs.verifier, responses.domain)
    if inputs.settings.missing_answer == "zero":
        shares = np.nan_to_num(shares, nan=0.0)
    by_response = dict(zip(pool["response_id"], shares, strict=True))
    confidence = responses.evaluated["response_id"].map(by_response).to_numpy(dtype=np.float64)
    return {Estimator(method.name): confidence for method in methods}
