"""Shares of responses on which the numbers computed from them rest."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from cocal.config.evaluation import QualitySettings

RATES = (
    "valid_rate",
    "answered_rate",
    "decided_rate",
    "truncation_rate",
    "p_true_mass",
    "exact_match_accuracy",
)
"""What is known of the responses behind a cell, besides its metrics: shares of them with a valid confidence, with an
answer, with a verdict, and cut at the length limit; the mean probability of P(True)'s two words; and the accuracy by
exact match, beside the judge's. NaN where it does not apply."""

RESTS_ON: dict[str, tuple[str, ...]] = {
    "accuracy": ("answered_rate", "decided_rate"),
    "mean_confidence": ("valid_rate", "p_true_mass"),
    "ece": ("valid_rate", "p_true_mass", "answered_rate", "decided_rate"),
    "auroc": ("valid_rate", "p_true_mass", "answered_rate", "decided_rate"),
}
"""The shares that each metric rests on: correctness needs answers and verdicts, confidence needs valid ones."""


def rates_of(rows: pd.DataFrame) -> dict[str, float]:
    """The `RATES` of predictions.

    Args:
        rows: columns confidence, answered, decided, truncated, p_true_mass and exact_match of
            cocal.store.contracts.PREDICTIONS.
    """
    exact = rows["exact_match"].to_numpy(dtype=np.float64, na_value=np.nan)
    known = exact[~np.isnan(exact)]
    return {
        "valid_rate": float(rows["confidence"].notna().mean()),
        "answered_rate": float(rows["answered"].mean()),
        "decided_rate": float(rows["decided"].mean()),
        "truncation_rate": float(rows["truncated"].mean()),
        "p_true_mass": float(rows["p_true_mass"].mean()),
        "exact_match_accuracy": float(known.mean()) if known.size else float("nan"),
    }


_ROUNDING = 1e-9
"""Below which two shares are equal: the mean of equal shares over seeds may round to either side of them."""


def shortfalls(rates: Mapping[str, float], floors: QualitySettings) -> dict[str, float]:
    """The rates that lie below their floor; an unknown one (NaN, or not in `rates`) lies below none."""
    known = floors.model_dump()
    return {name: rates[name] for name, floor in known.items() if name in rates and rates[name] < floor - _ROUNDING}
