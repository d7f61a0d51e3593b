"""SelfConsis: the share of sampled responses that agree with the evaluated one (appendix B.1).

Its baselines of tables/recalibrated are the same share without the evaluated response, and semantic entropy.
"""

from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cocal.errors import ContractError
from cocal_study.config.evaluation import EstimatorSettings
from cocal_study.config.method import Baseline, Method
from cocal_study.methods.base.responses import Estimator, Inputs, Responses

METHOD = Method(
    name="self-consistency",
    label="SelfConsis",
    position=20,
    group=1,
    prompt_format="answer",
    policy="grpo",
    estimate=f"{__name__}:estimate",
    columns=("answer_class",),
    needs_pool=True,
    colour="#e1c706",
    marker="v",
)
BASELINES = (
    Baseline(
        name="self-consistency-loo",
        label="SelfConsis (leave-one-out)",
        position=40,
        method=METHOD.name,
        score=f"{__name__}:score",
        columns=METHOD.columns,
    ),
    Baseline(
        name="semantic-entropy",
        label="Semantic entropy",
        position=50,
        method=METHOD.name,
        score=f"{__name__}:semantic_entropy",
        columns=METHOD.columns,
    ),
)


def self_consistency(classes: ArrayLike, pools: Sequence[Hashable], *, itself: bool = True) -> np.ndarray:
    """Compute the share of each response's pool whose answers are equivalent to its own.

    Args:
        classes: int64 (n,), class of each answer; equivalent answers in a pool have the same class. It is -1 without an
            answer.
        pools: Pool of each response, such as its question's id.
        itself: Whether the response itself counts. Without it, the expectation does not depend on the size of the pool,
            so that what is fitted on groups of eight rollouts suits pools of ten responses (tables/recalibrated).

    Returns:
        float64 (n,) in [0, 1]; NaN without an answer, and in a pool of one response whose own does not count. Responses
        without an answer count in the size of the pool.
    """
    table = pd.DataFrame({"pool": pools, "answer_class": np.asarray(classes, dtype=np.int64)})
    equal = table.groupby(["pool", "answer_class"], sort=False)["pool"].transform("size").to_numpy(dtype=np.float64)
    size = table.groupby("pool", sort=False)["pool"].transform("size").to_numpy(dtype=np.float64)
    left_out = 0 if itself else 1
    with np.errstate(invalid="ignore"):  # 0 / 0 of a pool of one
        return np.where(table["answer_class"] >= 0, (equal - left_out) / (size - left_out), np.nan)


def check_pool(responses: Responses, size: int) -> None:
    """Check that every question has a whole pool of responses whose answers were compared with one another. Raises
    ContractError if a question has another number of responses, or its answers were not compared."""
    pool = responses.pool
    sizes = pool["question_id"].value_counts(sort=False)
    wrong = sizes[sizes != size]
    if len(wrong):
        raise ContractError(
            f"{responses.path}: question {wrong.index[0]!r} has {wrong.iloc[0]} responses ({len(wrong)} such "
            f"question(s)), but self-consistency needs a pool of {size}; sample the responses with that pool"
        )
    unknown = np.flatnonzero(pool["answer_class"].isna())
    if len(unknown):
        raise ContractError(
            f"{responses.path}: column 'answer_class' is null in {len(unknown)} row(s), first in row {unknown[0]}: "
            "these answers were not compared with one another; sample the responses for self-consistency"
        )


def score(table: pd.DataFrame, settings: EstimatorSettings, *, itself: bool = False) -> np.ndarray:
    """Compute `self_consistency` in the pools of a table, by default without the response itself.

    A response without an answer gets 0 or NaN, according to `settings.missing_answer`.
    """
    shares = self_consistency(table["answer_class"], table["pool"].tolist(), itself=itself)
    unanswered = table["answer_class"].to_numpy() < 0
    return np.where(unanswered, 0.0, shares) if settings.missing_answer == "zero" else shares


def semantic_entropy(table: pd.DataFrame, settings: EstimatorSettings) -> np.ndarray:
    """Compute 1 - H / log(n) of each response's pool, where H is the entropy of its classes and n its size: float64
    (n,) in [0, 1], NaN for a pool of one response.

    H is the discrete semantic entropy of Farquhar et al., "Detecting hallucinations in large language models using
    semantic entropy" (Nature 630, 2024), after Kuhn et al., "Semantic uncertainty" (ICLR 2023): the entropy of the
    shares of a question's sampled answers that fall into each class of equivalent answers. All responses of a pool have
    the same value: 1 if all answers are equivalent, 0 if no two are. A response without an answer (class -1) counts as
    a class of its own, since it agrees with none.
    """
    labels = table["answer_class"].to_numpy(dtype=np.int64)
    own_class = np.where(labels < 0, -1 - np.arange(len(labels)), labels)
    classes = pd.DataFrame({"pool": table["pool"].to_numpy(), "answer_class": own_class})
    sizes = classes.groupby("pool", sort=False)["pool"].transform("size").to_numpy(dtype=np.float64)
    shares = classes.groupby(["pool", "answer_class"], sort=False)["pool"].transform("size").to_numpy() / sizes
    # every response of a class adds its part of -p log p, so that the sum over responses is the sum over classes
    classes["part"] = -np.log(shares) / sizes
    entropy = classes.groupby("pool", sort=False)["part"].transform("sum").to_numpy()
    with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 of a pool of one
        return (1 - entropy / np.log(sizes)).clip(0.0, 1.0)


def estimate(methods: Sequence[Method], responses: Responses, inputs: Inputs) -> dict[Estimator, np.ndarray]:
    """Compute the self-consistency of the evaluated responses within pools of `inputs.pool` responses per question.

    Raises ContractError if a question has another number of responses, or its answers were not compared.
    """
    check_pool(responses, inputs.pool)
    shares = score(responses.pool, inputs.settings, itself=True)
    by_response = dict(zip(responses.pool["response_id"], shares, strict=True))
    confidence = responses.evaluated["response_id"].map(by_response).to_numpy(dtype="float64")
    return {Estimator(method.name): confidence for method in methods}
