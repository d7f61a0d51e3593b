"""Cells of a metric cube, the policy that produces a method's responses, and the quality of those responses."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from cocal.errors import ContractError
from cocal.metrics.calibration import METRICS
from cocal.metrics.scores import SCORES, WITHIN
from cocal_study.config.evaluation import QualitySettings
from cocal_study.config.methods import scored_method


def policy_cell(method: str, step: int) -> tuple[str, int]:
    """Return the algorithm and the step of a method's or baseline's predictions for policies at `step`.

    The pre-RL model always has algorithm "base" and step 0.
    """
    algorithm = scored_method(method).policy
    return (algorithm, 0) if algorithm == "base" else (algorithm, step)


def read_cell(cube: xr.Dataset, cell: Mapping[str, str | int], metrics: Sequence[str] = METRICS) -> pd.DataFrame:
    """Read metrics of one cell, which has one label for each dimension of the cube except `metric`. Raises
    ContractError if the cube has other dimensions, or lacks the cell or a metric.

    The result has one row for each metric, with the columns metric, value, lower, upper (bootstrap interval over the
    questions), n, those of `RATES`, and seed_sd (standard deviation over the seeds).
    """
    file = cube.encoding.get("source", "metrics")  # xarray records the path of the file here
    dims = [str(name) for name in cube["n"].dims]
    if set(dims) != set(cell):
        raise ContractError(
            f"{file}: the cube has the dimensions {', '.join(dims)}, but {', '.join(cell)} are needed. A sweep over "
            "companions has its own cube: give the other one"
        )
    if missing := [name for name in metrics if name not in cube.indexes["metric"]]:
        raise ContractError(f"{file}: the cube has no metric {missing[0]}; make it anew with `cocal metrics --scores`")
    where = ", ".join(f"{name} {label}" for name, label in cell.items() if name != "seed")
    for name, label in cell.items():
        if label not in cube.indexes[name]:
            known = ", ".join(map(str, cube.indexes[name]))
            raise ContractError(f"{file}: there is nothing for {where}: no such {name} (there are: {known})")
    values = cube.sel({**cell, "metric": list(metrics)})
    if int(values["n"]) == 0:
        raise ContractError(f"{file}: there is nothing for {where}; run its predictions, or leave it out of the layout")
    return pd.DataFrame(
        {
            "metric": values["metric"].to_numpy(),
            **{name: values[name].to_numpy() for name in ("value", "lower", "upper")},
            "n": int(values["n"]),
            **{name: float(values[name]) for name in RATES},
            "seed_sd": values["seed_sd"].to_numpy(),
        }
    )


def read_cells(
    cube: xr.Dataset, cells: Mapping[Any, Mapping[str, Any]], names: Sequence[str], metrics: Sequence[str] = METRICS
) -> pd.DataFrame:
    """Read metrics of several cells by key and stack the rows of `read_cell` in their order; the first columns, called
    `names`, hold the parts of the keys."""
    read = {key: read_cell(cube, cell, metrics) for key, cell in cells.items()}
    return pd.concat(read, names=names).reset_index(level=list(names)).reset_index(drop=True)


RATES = ("valid_rate", "answered_rate", "decided_rate", "truncation_rate", "p_true_mass", "exact_match_accuracy")
"""Quality rates of a cell's responses: the shares with a valid confidence, with an answer, with a verdict and of
truncated responses, the mean probability of "True" or "False" in P(True), and the accuracy by exact match instead of
the judge. A rate that does not apply is NaN."""

_CORRECTNESS, _CONFIDENCE = ("answered_rate", "decided_rate"), ("valid_rate", "p_true_mass")
RESTS_ON: dict[str, tuple[str, ...]] = {
    "accuracy": _CORRECTNESS,
    "mean_confidence": _CONFIDENCE,
    **dict.fromkeys(("ece", "auroc", *SCORES, WITHIN), (*_CONFIDENCE, *_CORRECTNESS)),
}
"""The rates that each metric depends on: correctness needs answers and verdicts, confidence needs valid confidences."""


def rates_of(rows: pd.DataFrame) -> dict[str, float]:
    """Compute the `RATES` of rows of a predictions table (`cocal_study.store.contracts.PREDICTIONS`)."""
    exact = rows["exact_match"].to_numpy(dtype=np.float64, na_value=np.nan)
    known = exact[~np.isnan(exact)]
    shares = (rows["confidence"].notna(), *(rows[name] for name in ("answered", "decided", "truncated", "p_true_mass")))
    means = [float(values.mean()) for values in shares]
    return dict(zip(RATES, [*means, float(known.mean()) if known.size else float("nan")], strict=True))


def degenerate(mean_confidence: tuple[float, float], auroc: tuple[float, float]) -> bool:
    """True if a confidence does not discriminate between responses: it is constant, so that the interval of its mean
    over resamples of the questions has no width, or the interval of its AUROC over the same resamples contains 0.5."""
    return mean_confidence[1] - mean_confidence[0] < _TOLERANCE or auroc[0] <= 0.5 <= auroc[1]


_TOLERANCE = 1e-9
"""Tolerance of comparisons, because the mean of equal shares over seeds may be rounded up or down."""


def shortfalls(rates: Mapping[str, float], floors: QualitySettings) -> dict[str, float]:
    """Return the rates that lie below their floors; NaN and missing rates are never below."""
    known = floors.model_dump()
    return {name: rates[name] for name, floor in known.items() if name in rates and rates[name] < floor - _TOLERANCE}
