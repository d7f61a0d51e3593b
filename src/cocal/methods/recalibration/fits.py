"""Fits of all calibrators of a policy's rivals on its rollouts, and the file that keeps them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import ValidationError

from cocal.config.base import Count, Model, Share
from cocal.errors import ContractError
from cocal.methods.recalibration.calibrators import FITS, Calibrator
from cocal.methods.recalibration.experience import Part
from cocal.methods.recalibration.linear import LinearProbe
from cocal.methods.responses import Estimator
from cocal.store import digest, read_document
from cocal.store.damage import remedy
from cocal.study.rivals import RIVALS, Calibration


class Responses(Model):
    """The responses of one part of the rollouts, from which calibrators may learn."""

    responses: int
    questions: int
    digest: str
    """Digest of their response ids, in order."""

    @classmethod
    def of(cls, rollouts: pd.DataFrame) -> "Responses":
        """Those of a table with the columns response_id and question."""
        ids = rollouts["response_id"].tolist()
        return cls(responses=len(ids), questions=rollouts["question"].nunique(), digest=digest(ids))


class Fit(Model):
    """The calibrators of one rival and companion's seed."""

    rival: str
    seed: int
    """The companion's training seed; -1 without a companion."""
    part: Part
    """Part of the rollouts that they learnt from."""
    responses: Count
    """Number of its responses that have a score."""
    correct: Share
    """Share of correct responses among them."""
    calibrators: dict[Calibration, Calibrator]


class Fits(Model):
    """All calibrators of the rivals on one policy."""

    steps: Count
    """Last rollout step of the responses."""
    linear: tuple[LinearProbe, ...] = ()
    """The linear probes among the rivals."""
    parts: dict[Part, Responses]
    fits: tuple[Fit, ...]

    def apply(self, rival: str, seed: int, calibration: Calibration, scores: np.ndarray) -> np.ndarray:
        """The calibrated confidences of scores, float64 (n,); NaN if no response had a score to learn from."""
        for fit in self.fits:
            if (fit.rival, fit.seed) == (rival, seed):
                return fit.calibrators[calibration].apply(scores)
        return np.full(len(scores), np.nan)


def part_of(rival: str) -> Part:
    """The part of the rollouts that a rival's calibrators learn from.

    That is the training part, unless the score itself was learnt there: then it is the held-out part, whose labels a
    companion or probe has seen only to choose its best pass or penalty.
    """
    return "held out" if RIVALS[rival].reader else "training"


def fit_rivals(
    rollouts: pd.DataFrame, scores: Mapping[Estimator, np.ndarray], linear: Sequence[LinearProbe] = ()
) -> Fits:
    """Fit the calibrators of all scores, each on its `part_of` the rollouts.

    Args:
        rollouts: Table from `cocal.methods.recalibration.experience.read_experience`.
        scores: float64 (n,) for each rival and companion: the scores of the rollouts, NaN where there is none.
        linear: The linear probes that gave scores.
    """
    parts = {name: rollouts[rollouts["part"] == name] for name in ("training", "held out")}
    fits = []
    for rival, values in scores.items():
        part = part_of(rival.method)
        rows = (rollouts["part"] == part).to_numpy() & ~np.isnan(values)
        if rows.any():
            known, correct = values[rows], rollouts["correct"].to_numpy()[rows]
            fits.append(
                Fit(
                    rival=rival.method,
                    seed=rival.seed,
                    part=part,
                    responses=int(rows.sum()),
                    correct=float(correct.mean()),
                    calibrators={name: fit(known, correct) for name, fit in FITS.items()},
                )
            )
    return Fits(
        steps=int(rollouts["step"].max()),
        linear=tuple(linear),
        parts={name: Responses.of(rows) for name, rows in parts.items()},
        fits=tuple(fits),
    )


def read_fits(path: str | Path) -> Fits:
    """Read the file of `cocal recalibrate`.

    Raises:
        ContractError: if it is missing, has changed since it was written, or holds no calibrators.
    """
    content = read_document(path, maker="the rule that recalibrates the rivals")
    try:
        return Fits.model_validate(content)
    except ValidationError as error:
        raise ContractError(f"{path}: holds no valid calibrators ({error}); {remedy(path)}") from None
