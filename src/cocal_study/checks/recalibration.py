"""Checks of recalibrated rivals: no evaluation question taught them, and they share the responses of their methods."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from cocal.errors import ContractError
from cocal_study.checks.predictions import read_predictions
from cocal_study.methods.base.responses import Estimator
from cocal_study.methods.recalibration.calibrators import Fits
from cocal_study.methods.recalibration.confidences import refuse_evaluated
from cocal_study.planning.rivals import CALIBRATIONS, RIVALS, Basis, named

_POLICY = ["backbone", "algorithm", "step"]
_RESPONSE = ["dataset", "response_id"]
_FACTS = [*_RESPONSE, "question_id", "correct", "truncated", "answered", "decided"]


def read_recalibrated(path: Path, backbone: str) -> pd.DataFrame:
    """Read the predictions of recalibrated rivals.

    Raises:
        ContractError: if the file breaks its contract, belongs to another backbone, or has an unknown rival.
    """
    return read_predictions(path, backbone, [named(rival, how) for rival in RIVALS for how in ("raw", *CALIBRATIONS)])


def check_unseen(
    fits: Fits, tables: Mapping[Basis, pd.DataFrame], evaluated: pd.DataFrame, source: str | Path
) -> dict[str, object]:
    """Check that the calibrators of one policy's rivals learnt from no evaluation question.

    Args:
        tables: Responses of that policy, from `cocal_study.checks.training.read_table`, among which those of each basis
            are.
        evaluated: Questions of all evaluation sets (columns dataset, question_id, question).

    Returns:
        The number of fits, and for each basis its steps and the number of responses of each part.
    """
    found: dict[str, object] = {"fits": len(fits.fits)}
    for basis, learnt in fits.learnt.items():
        rows = tables[basis][tables[basis]["step"].between(learnt.first, learnt.last)]
        refuse_evaluated(rows["question"].unique(), evaluated, source)
        found[basis] = learnt.model_dump()
    return found


def check_responses(
    recalibrated: pd.DataFrame, predictions: Sequence[pd.DataFrame], source: str | Path
) -> dict[str, int]:
    """Check that one policy's rivals are evaluated on the responses of their methods.

    Args:
        predictions: Predictions of the methods of the registry, from which those on the same policy are taken.

    Returns:
        The numbers of rivals, of scores with their seeds, and of responses.
    """
    policy = recalibrated[_POLICY].iloc[0]
    same = [table[(table[_POLICY] == policy).all(axis=1)] for table in predictions]
    # a comparison of companions has some of the sets alone, so that the longest table of a method is that of all
    own = sorted(
        _by_estimator(pd.concat(same, ignore_index=True).drop_duplicates()).items(), key=lambda one: len(one[1])
    )
    whole = {estimator.method: rows for estimator, rows in own}
    raw = {rival: rows for rival, rows in _by_estimator(recalibrated).items() if rival.method in RIVALS}
    for rival, rows in raw.items():
        method = RIVALS[rival.method].method
        if method not in whole or not rows[_FACTS].equals(whole[method][_FACTS]):
            raise ContractError(
                f"{source}: {rival.method} (seed {rival.seed}) is not evaluated on the responses of {method}; "
                "recalibrate anew"
            )
    return {
        "rivals": len({rival.method for rival in raw}),
        "scores": len(raw),
        "responses": len(recalibrated.drop_duplicates(_RESPONSE)),
    }


def _by_estimator(table: pd.DataFrame) -> dict[Estimator, pd.DataFrame]:
    groups = table.sort_values(_RESPONSE).groupby(list(Estimator._fields))
    return {Estimator(*key): rows.reset_index(drop=True) for key, rows in groups}
