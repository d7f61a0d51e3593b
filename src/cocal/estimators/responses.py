"""The responses that methods are evaluated on, and what else estimators draw on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pandas as pd
from pydantic import RootModel

from cocal.config.base import Count, Name
from cocal.config.evaluation import EstimatorSettings
from cocal.errors import ContractError
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal.store.damage import remedy

if TYPE_CHECKING:
    from cocal.companion.companions import Companions
    from cocal.config.method import Experience, Method

FACTS = ("correct", "truncated", "answered", "decided", "exact_match")
"""What predictions say of a response, whatever the method (cocal.store.contracts.PREDICTIONS)."""
COLUMNS = ("dataset", "question_id", "response_id", "step", "sample", "length", "answer")
COLUMNS += tuple(name for name in FACTS if name != "answered")
"""Columns that every evaluation reads."""


class Estimator(NamedTuple):
    """What gives one confidence to every evaluated response.

    Attributes:
        method: of the registry.
        seed: training seed; -1 without one.
        source_step: rollout steps that its companion learnt from; -1 without a companion.
        validation_step: rollout steps whose validation responses chose its best pass; -1 without a companion.
        layer: zero-based block index that its companion reads; -1 without one.
        pooling: pooled states that its companion reads, such as "last+mean"; empty without one.
    """

    method: str
    seed: int = -1
    source_step: int = -1
    validation_step: int = -1
    layer: int = -1
    pooling: str = ""


class EvaluationSets(RootModel[dict[Name, Count]]):
    """Evaluated question sets, in the order of the predictions: name -> responses a question that are evaluated.

    Further responses belong to the self-consistency pool alone.
    """


@dataclass(frozen=True)
class Responses:
    """Responses of one policy to one question set in one prompt format.

    Attributes:
        path: file they come from.
        dataset: name of the set.
        pool: all of them, in file order.
        evaluated: those that count, in file order: truncated, wrong and confidence-less ones included
            (appendix A.2); with the column answered, whether there is an answer.
    """

    path: Path
    dataset: str
    pool: pd.DataFrame
    evaluated: pd.DataFrame


@dataclass(frozen=True)
class Inputs:
    """What estimators draw on besides the responses.

    Attributes:
        settings: of the estimators.
        pool: responses a question in the self-consistency pool (M of appendix B.1).
        features: by prompt format, folder of {dataset}.zarr with the features of the evaluated responses.
        companions: fitted companions by experience; those of one differ in their steps, layer or poolings.
    """

    settings: EstimatorSettings
    pool: int
    features: Mapping[str, Path] = field(default_factory=dict)
    companions: "Mapping[Experience, Sequence[Companions]]" = field(default_factory=dict)


class Estimate(Protocol):
    """What `cocal.config.method.Method.estimate` names: a function that computes the confidences of its methods."""

    def __call__(
        self, methods: "Sequence[Method]", responses: Responses, inputs: Inputs
    ) -> "dict[Estimator, np.ndarray]":
        """Confidences of these methods, all of which name this function.

        Args:
            methods: at least one, all of one prompt format, in the order of the registry.
            responses: of one question set.
            inputs: what else there is to draw on.

        Returns:
            float64 (n,) by each estimator of the methods: one value in [0, 1] for each evaluated response, in their
            order; NaN where there is no valid confidence.

        Raises:
            ContractError: if a file lacks what the methods need.
        """
        ...


def read_responses(folder: Path, dataset: str, samples: int, step: int, columns: Sequence[str]) -> Responses:
    """Read {dataset}.parquet of `folder`, `COLUMNS` and `columns` of it; the first `samples` a question are evaluated.

    Raises:
        ContractError: if the file breaks its contract, holds another set or another checkpoint's responses, or
            lacks one of the evaluated responses to a question.
    """
    path = folder / f"{dataset}.parquet"
    frame = read_frame(path, RESPONSES, list(dict.fromkeys((*COLUMNS, *columns))))
    for column, expected in (("dataset", dataset), ("step", step)):
        other = np.flatnonzero(frame[column].to_numpy() != expected)
        if len(other):
            raise ContractError(
                f"{path}: column {column!r} is {frame[column].iloc[other[0]]} at row {other[0]}, not {expected}: "
                "these are other responses than the ones asked for"
            )
    evaluated = frame[frame["sample"] < samples].reset_index(drop=True)
    evaluated = evaluated.assign(answered=evaluated["answer"].notna())
    expected = pd.MultiIndex.from_product([frame["question_id"].unique(), range(samples)])
    found = pd.MultiIndex.from_frame(evaluated[["question_id", "sample"]])
    broken = expected.difference(found).append(found[found.duplicated()])
    if len(broken):
        raise ContractError(
            f"{path}: column 'sample' must hold 0 to {samples - 1} once for every question; question "
            f"{broken[0][0]!r}, sample {broken[0][1]}, is missing or repeats; "
            + remedy(path, "sample the responses anew")
        )
    return Responses(path, dataset, frame, evaluated)
