"""Checks of recalibrated rivals: what their calibrators learnt from, and that the files agree with one another."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.companion.settings import CompanionSettings
from cocal.errors import ContractError
from cocal_study.checks.predictions import read_predictions
from cocal_study.methods.recalibration.confidences import parts_of, refuse_evaluated
from cocal_study.methods.recalibration.fits import Fits, Responses, part_of
from cocal_study.methods.responses import Estimator
from cocal_study.planning.rivals import CALIBRATIONS, RIVALS, Basis, calibrations_of, named

_POLICY = ["backbone", "algorithm", "step"]
_RESPONSE = ["dataset", "response_id"]
_FACTS = ["question_id", "correct", "truncated", "answered", "decided"]
_TOLERANCE = 1e-12
"""Difference to which a calibrator's confidences are recomputed."""
_ROUNDING = 1e-5
"""Difference by which two computations of a companion's confidence may differ on different devices."""


def read_recalibrated(path: Path, backbone: str) -> pd.DataFrame:
    """Read the predictions of recalibrated rivals.

    Raises:
        ContractError: if the file breaks its contract, belongs to another backbone, or has an unknown rival.
    """
    return read_predictions(path, backbone, [named(rival, how) for rival in RIVALS for how in ("raw", *CALIBRATIONS)])


def check_unseen(
    fits: Fits,
    tables: Mapping[Basis, pd.DataFrame],
    questions: Sequence[str],
    settings: CompanionSettings,
    evaluated: pd.DataFrame,
    source: str | Path,
) -> dict[str, object]:
    """Check that the calibrators learnt from exactly the responses of the companions, and from no evaluation question.

    Args:
        fits: Calibrators of one policy's rivals.
        tables: Responses of that policy, from `cocal_study.checks.training.read_table`, among which those of each basis
        are. questions: Texts of all training questions.
        settings: Settings of the companions, whose split of the questions is taken.
        evaluated: Questions of all evaluation sets (columns dataset, question_id, question).

    Returns:
        The number of fits, and for each basis its steps and the numbers of responses and questions of each part.
    """
    found: dict[str, object] = {"fits": len(fits.fits)}
    for basis, learnt in fits.learnt.items():
        rows = tables[basis][tables[basis]["step"].between(learnt.first, learnt.last)]
        parts = parts_of(rows, questions, settings)
        for part, stated in learnt.parts.items():
            if (one := Responses.of(rows[parts == part])) != stated:
                raise ContractError(
                    f"{source}: of {basis}, the {part} part has {stated.responses} responses (digest {stated.digest}), "
                    f"but steps {learnt.first} to {learnt.last} have {one.responses} ({one.digest}); recalibrate anew"
                )
        refuse_evaluated(rows["question"].unique(), evaluated, source)
        found[basis] = learnt.model_dump(exclude={"parts": {part: {"digest"} for part in learnt.parts}})
    for fit in fits.fits:
        allowed = part_of(fit.rival)
        count = fits.learnt[fit.basis].parts[allowed].responses
        if fit.part != allowed or fit.responses > count:
            raise ContractError(
                f"{source}: {fit.rival} (seed {fit.seed}) learnt from {fit.responses} responses of the {fit.part} "
                f"part of {fit.basis}, but its {allowed} part has {count}; recalibrate anew"
            )
    return found


def check_confidences(
    recalibrated: pd.DataFrame, fits: Fits, predictions: Sequence[pd.DataFrame], source: str | Path
) -> dict[str, int]:
    """Check that rivals are evaluated on the responses of their methods, that a method's own scores are those of its
    predictions, and that recalibrated confidences are what the calibrators make of the scores.

    Args:
        recalibrated: Predictions of one policy's rivals.
        fits: Their calibrators.
        predictions: Predictions of the methods of the registry, from which those on the same policy are taken.

    Returns:
        The numbers of rivals, of scores with their seeds, and of responses.
    """
    policy = recalibrated[_POLICY].iloc[0]
    same = [table[(table[_POLICY] == policy).all(axis=1)] for table in predictions]
    own = _by_estimator(pd.concat(same, ignore_index=True).drop_duplicates())
    # a comparison of companions has some of the sets alone, so that the longest table of a method is that of all
    whole = {estimator.method: rows for estimator, rows in sorted(own.items(), key=lambda item: len(item[1]))}
    tables = _by_estimator(recalibrated)
    raw = {rival: rows for rival, rows in tables.items() if rival.method in RIVALS}
    for rival, rows in raw.items():
        words = f"{source}: {rival.method} (seed {rival.seed})"
        method = RIVALS[rival.method].method
        reference = whole.get(method)
        if reference is None or not rows[[*_RESPONSE, *_FACTS]].equals(reference[[*_RESPONSE, *_FACTS]]):
            raise ContractError(f"{words} is not evaluated on the responses of {method}; recalibrate anew")
        scores = rows["confidence"].to_numpy()
        if rival in own and not _equal(own[rival], scores, _ROUNDING):
            raise ContractError(f"{words} has other confidences than in its predictions; recalibrate anew")
        for calibration in calibrations_of(rival.method, fits.learnt):
            found = tables.get(rival._replace(method=named(rival.method, calibration)))
            wanted = fits.apply(rival.method, rival.seed, calibration, scores)
            if found is None or not _equal(found, wanted, _TOLERANCE):
                raise ContractError(f"{words}: {calibration} has other confidences than its calibrator gives")
    return {
        "rivals": len({rival.method for rival in raw}),
        "scores": len(raw),
        "responses": len(recalibrated.drop_duplicates(_RESPONSE)),
    }


def _by_estimator(table: pd.DataFrame) -> dict[Estimator, pd.DataFrame]:
    ordered = table.sort_values(_RESPONSE)
    groups = ordered.groupby(list(Estimator._fields))
    return {Estimator(*key): rows.reset_index(drop=True) for key, rows in groups}


def _equal(rows: pd.DataFrame, wanted: np.ndarray, tolerance: float) -> bool:
    found = rows["confidence"].to_numpy()
    return len(found) == len(wanted) and np.allclose(found, wanted, rtol=0.0, atol=tolerance, equal_nan=True)
