"""Checks of predictions: their quality, the responses that methods share, and the companions behind them."""

import logging
import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from cocal.companion.spec import Prefix
from cocal.errors import ContractError
from cocal.store import read_frame
from cocal_study.config.evaluation import QualitySettings
from cocal_study.config.methods import METHODS
from cocal_study.cubes.cells import rates_of, shortfalls
from cocal_study.methods.base.predictions import check_shared_responses, on_fixed_responses
from cocal_study.methods.base.responses import Estimator
from cocal_study.store.contracts import PREDICTIONS

logger = logging.getLogger(__name__)

_COLUMNS = [name for name in PREDICTIONS.types if name != "valid"]


def read_predictions(path: Path, backbone: str) -> pd.DataFrame:
    """Read the predictions of one file. Raises ContractError if the file breaks its contract, belongs to another
    backbone, or has an unknown method."""
    table = read_frame(path, PREDICTIONS, _COLUMNS)
    for column, known in (("backbone", [backbone]), ("method", METHODS)):
        if other := sorted(set(table[column]) - set(known)):
            raise ContractError(f"{path}: column {column!r} has {other[0]!r}; it may have {', '.join(known)}")
    return table


def sources_of(predictions: pd.DataFrame) -> dict[str, list[str]]:
    """The training and validation steps of each method's companions, as `Prefix` formats them."""
    sources = {}
    for method, rows in predictions.groupby("method"):
        if METHODS[str(method)].experience:
            steps = rows[["source_step", "validation_step"]].drop_duplicates().to_numpy().tolist()
            sources[str(method)] = [str(prefix) for prefix in sorted(Prefix(*pair) for pair in steps)]
    return sources


def check_quality(predictions: pd.DataFrame, floors: QualitySettings, source: str | Path) -> list[dict[str, object]]:
    """Compare the quality rates of each method and set with their floors; log a warning for each rate below its floor.
    The result lists, for each policy, method and question set, the rates of `cocal_study.cubes.cells.RATES` that apply
    and, under the key "below", the floors that are not reached."""
    looked_at = []
    for (algorithm, step, method, dataset), rows in predictions.groupby(["algorithm", "step", "method", "dataset"]):
        rates = {name: rate for name, rate in rates_of(rows).items() if not math.isnan(rate)}
        below = {name: getattr(floors, name) for name in shortfalls(rates, floors)}
        for name, floor in below.items():
            logger.warning(
                f"{source}: {method} of {algorithm} step {step} on {dataset}: the {name.replace('_', ' ')} is "
                f"{rates[name]:.4f}, below quality.{name} = {floor:g}"
            )
        cell = {"algorithm": str(algorithm), "step": int(step), "method": str(method), "dataset": str(dataset)}
        looked_at.append({**cell, "responses": int(rows["response_id"].nunique()), **rates, "below": below})
    return looked_at


def check_fixed_responses(tables: Sequence[pd.DataFrame]) -> list[dict[str, int | str]]:
    """Check that the methods of the answer format share their responses in all files of a policy (appendix B.1), and
    return the numbers of responses and of estimators (methods with their companions) for each policy and question set.

    A companion may occur in two files, because that of the full budget is also that of the main table (appendix E.1).
    It must then have the same confidences in both.
    """
    merged = pd.concat(tables, ignore_index=True).drop_duplicates()
    again = merged.duplicated(list(PREDICTIONS.unique))
    if again.any():
        row = merged[again].iloc[0]
        raise ContractError(
            f"{row['backbone']} {row['algorithm']} {row['step']} {row['dataset']}: {row['method']} (steps "
            f"{row['source_step']}, seed {row['seed']}) has two different predictions for response "
            f"{row['response_id']} ({again.sum()} such row(s)); predict both files with the same companions"
        )
    check_shared_responses(merged)
    looked_at = []
    for (algorithm, step, dataset), rows in on_fixed_responses(merged).groupby(["algorithm", "step", "dataset"]):
        estimators = rows.groupby(list(Estimator._fields)).ngroups
        numbers = {"responses": int(rows["response_id"].nunique()), "estimators": estimators}
        looked_at.append({"algorithm": str(algorithm), "step": int(step), "dataset": str(dataset), **numbers})
    return looked_at
