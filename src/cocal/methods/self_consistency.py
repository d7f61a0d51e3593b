"""SelfConsis: the share of sampled responses that agree with the evaluated one (appendix B.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cocal.config.method import Method

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np
    from numpy.typing import ArrayLike

    from cocal.methods.responses import Estimator, Inputs, Responses

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


def self_consistency(classes: ArrayLike, pools: Sequence[str]) -> np.ndarray:
    """Compute the share of each response's pool, itself included, whose answers are equivalent to its own.

    Args:
        classes: int64 (n,), class of each answer; equivalent answers in a pool have the same class. It is -1 without an
            answer.
        pools: Pool of each response, such as its question's id.

    Returns:
        float64 (n,) in (0, 1]; NaN without an answer. Responses without an answer count in the size of the pool.
    """
    import numpy as np

    equal, size = _agreeing(classes, pools)
    return np.where(np.asarray(classes) >= 0, equal / size, np.nan)


def leave_one_out(classes: ArrayLike, pools: Sequence[Hashable]) -> np.ndarray:
    """Compute the share of the other responses of each response's pool whose answers are equivalent to its own.

    Its expectation does not depend on the size of the pool, so that what is fitted on groups of eight rollouts suits
    pools of ten responses (tables/recalibrated).

    Args:
        classes: int64 (n,), as for `self_consistency`.
        pools: Pool of each response.

    Returns:
        float64 (n,) in [0, 1]; NaN without an answer and in a pool of one response. Responses without an answer count
        in the size of the pool.
    """
    import numpy as np

    equal, size = _agreeing(classes, pools)
    with np.errstate(invalid="ignore"):  # 0 / 0 of a pool of one
        return np.where(np.asarray(classes) >= 0, (equal - 1) / (size - 1), np.nan)


def _agreeing(classes: ArrayLike, pools: Sequence[Hashable]) -> tuple[np.ndarray, np.ndarray]:
    """For each response the number of equivalent answers in its pool, its own included, and the size of its pool."""
    import numpy as np
    import pandas as pd

    table = pd.DataFrame({"pool": pools, "answer_class": np.asarray(classes, dtype=np.int64)})
    equal = table.groupby(["pool", "answer_class"], sort=False)["pool"].transform("size")
    size = table.groupby("pool", sort=False)["pool"].transform("size")
    return equal.to_numpy(dtype=np.float64), size.to_numpy(dtype=np.float64)


def check_pool(responses: Responses, size: int) -> None:
    """Check that every question has a whole pool of responses whose answers were compared with one another.

    Raises:
        ContractError: if a question has another number of responses, or its answers were not compared.
    """
    import numpy as np

    from cocal.errors import ContractError

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


def estimate(methods: Sequence[Method], responses: Responses, inputs: Inputs) -> dict[Estimator, np.ndarray]:
    """Compute the self-consistency of the evaluated responses within pools of `inputs.pool` responses per question.

    A response without an answer gets confidence 0 or none, according to `settings.missing_answer`.

    Raises:
        ContractError: if a question has another number of responses, or its answers were not compared.
    """
    import numpy as np

    from cocal.methods.responses import Estimator

    check_pool(responses, inputs.pool)
    pool = responses.pool
    shares = self_consistency(pool["answer_class"], pool["question_id"].tolist())
    if inputs.settings.missing_answer == "zero":
        shares = np.nan_to_num(shares, nan=0.0)
    by_response = dict(zip(pool["response_id"], shares, strict=True))
    confidence = responses.evaluated["response_id"].map(by_response).to_numpy(dtype=np.float64)
    return {Estimator(method.name): confidence for method in methods}
