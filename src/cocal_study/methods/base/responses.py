"""The responses that methods are evaluated on, and the other inputs of estimators."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from cocal.companion.settings import Target
from cocal.errors import ContractError
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal.store.damage import remedy
from cocal_study.config.evaluation import EstimatorSettings
from cocal_study.config.method import Method

if TYPE_CHECKING:
    from cocal.companion.companions import Companions

FACTS = ("correct", "truncated", "answered", "decided", "exact_match")
"""The labels of a response in every method's predictions (`cocal_study.store.contracts.PREDICTIONS`)."""
COLUMNS = ("dataset", "question_id", "response_id", "step", "sample", "length", "answer")
COLUMNS += tuple(name for name in FACTS if name != "answered")
"""Columns of the responses that every evaluation reads."""


class Estimator(NamedTuple):
    """A method or baseline with one of its companions, if it has any; it gives one confidence to every response. The
    fields after the first one describe the companion: its training seed, the last rollout steps that it learnt from and
    that chose its best pass, and the zero-based index of the block and the pooled states that it reads, such as
    "last+mean". Without a companion, they are -1 and ""."""

    method: str
    seed: int = -1
    source_step: int = -1
    validation_step: int = -1
    layer: int = -1
    pooling: str = ""


@dataclass(frozen=True)
class Responses:
    """Responses of one policy to one question set in one prompt format, in file order: all of them (the pool, whose
    column pool has the question ids), and the evaluated ones, including those that are truncated, wrong or without a
    confidence (appendix A.2). Their column answered says whether there is an answer."""

    path: Path
    dataset: str
    pool: pd.DataFrame
    evaluated: pd.DataFrame


@dataclass(frozen=True)
class Inputs:
    """The inputs of estimators besides the responses: their settings, the number of responses per question in the
    self-consistency pool (M in appendix B.1), folders with the features of the evaluated responses ({dataset}.zarr) by
    prompt format, and fitted companions by experience, which differ in steps, layer or poolings."""

    settings: EstimatorSettings
    pool: int
    features: Mapping[Any, Path] = field(default_factory=dict)
    companions: "Mapping[Any, Sequence[Companions]]" = field(default_factory=dict)


Score = Callable[[pd.DataFrame, EstimatorSettings], np.ndarray]
"""The function that `cocal_study.config.method.Baseline.score` names, which scores rollouts and responses alike.

The table has the columns that the baseline declares, and the column pool: the group of rollouts, or the pool of
responses to a question. Rollouts come in tables of whole steps. The scores are float64 (n,) in [0, 1], NaN where there
is none.
"""


class LabelledStates(NamedTuple):
    """Responses from which a score of hidden states is learnt.

    Attributes:
        states: float32 (n, inputs), those of the blocks and poolings that the baseline declares, side by side; by
            default what companions read, last token and mean of the last block.
        correct: bool (n,).
        group_accuracy: float64 (n,), the share of correct responses in the group of each.
        table: The columns that the baseline declares, in chronological order like the rest.
    """

    states: np.ndarray
    correct: np.ndarray
    group_accuracy: np.ndarray
    table: pd.DataFrame | None = None


class LearntScore(Protocol):
    """A score of hidden states that was learnt."""

    def apply(self, states: np.ndarray, *table: pd.DataFrame) -> np.ndarray:
        """The scores of states (m, inputs), float64 (m,) in [0, 1]. Where the baseline declares columns, a table of
        them follows, with m rows."""
        ...


Learn = Callable[[Target | None, LabelledStates, LabelledStates], LearntScore]
"""The function that `cocal_study.config.method.Baseline.learn` names, which learns a score from the rollouts on which
companions are trained.

It takes the target of the companion of the baseline's method (None if it has none), responses for training, and
responses to held-out questions for choices, at least one of each. Calibrators learn from the held-out ones.
"""
Estimate = Callable[[Sequence[Method], Responses, Inputs], dict[Estimator, np.ndarray]]
"""The function that `cocal_study.config.method.Method.estimate` names, which computes confidences of methods.

It takes all methods that name it, of one prompt format and in the order of the registry, the responses to one question
set, and all other inputs. For each estimator it returns float64 (n,), a value in [0, 1] for each evaluated response, in
their order; NaN if there is no valid confidence. It raises ContractError if a file lacks what the methods need.
"""


def read_responses(folder: Path, dataset: str, samples: int, step: int, columns: Sequence[str]) -> Responses:
    """Read `COLUMNS` and `columns` of {dataset}.parquet in `folder`.

    The first `samples` responses to each question are evaluated. Raises ContractError if the file breaks its contract,
    holds responses to another set or of another step, or lacks an evaluated response.
    """
    path = folder / f"{dataset}.parquet"
    frame = read_frame(path, RESPONSES, list(dict.fromkeys((*COLUMNS, *columns))))
    frame["pool"] = frame["question_id"]
    for column, expected in (("dataset", dataset), ("step", step)):
        other = np.flatnonzero(frame[column].to_numpy() != expected)
        if len(other):
            raise ContractError(
                f"{path}: column {column!r} is {frame[column].iloc[other[0]]} at row {other[0]}, not {expected}; "
                f"give the responses of {dataset} and step {step}"
            )
    evaluated = frame[frame["sample"] < samples].reset_index(drop=True)
    evaluated = evaluated.assign(answered=evaluated["answer"].notna())
    expected = pd.MultiIndex.from_product([frame["question_id"].unique(), range(samples)])
    pairs = pd.MultiIndex.from_frame(evaluated[["question_id", "sample"]])
    broken = expected.difference(pairs).append(pairs[pairs.duplicated()])
    if len(broken):
        raise ContractError(
            f"{path}: column 'sample' must hold 0 to {samples - 1} once for every question; question "
            f"{broken[0][0]!r}, sample {broken[0][1]}, is missing or repeats; {remedy(path)}"
        )
    return Responses(path, dataset, frame, evaluated)
