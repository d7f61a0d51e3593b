"""Quality rates of responses, such as the share with an answer, on which the reliability of metrics depends."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from cocal.config.evaluation import QualitySettings
from cocal.metrics.scores import SCORES

RATES = (
    "valid_rate",
    "answered_rate",
    "decided_rate",
    "truncation_rate",
    "p_true_mass",
    "exact_match_accuracy",
)
"""Quality rates of a cell's responses: the shares with a valid confidence, with an answer, with a verdict and of
truncated responses, the mean probability of "True" or "False" in P(True), and the accuracy by exact match instead of
the judge. A rate that does not apply is NaN."""

_CORRECTNESS, _CONFIDENCE = ("answered_rate", "decided_rate"), ("valid_rate", "p_true_mass")
RESTS_ON: dict[str, tuple[str, ...]] = {
    "accuracy": _CORRECTNESS,
    "mean_confidence": _CONFIDENCE,
    **dict.fromkeys(("ece", "auroc", *SCORES), (*_CONFIDENCE, *_CORRECTNESS)),
}
"""The rates that each metric depends on: correctness needs answers and verdicts, confidence needs valid confidences."""


def rates_of(rows: pd.DataFrame) -> dict[str, float]:
    """Compute the `RATES` of rows of a predictions table (`cocal.store.contracts.PREDICTIONS`)."""
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


def degenerate(mean_confidence: tuple[float, float], auroc: tuple[float, float]) -> bool:
    """True if a confidence tells no response from another: it is constant, or the interval of its AUROC holds one half.

    Args:
        mean_confidence: The interval of its mean over resamples of the questions, which has no width where the
            confidence is constant; NaN without resamples.
        auroc: The interval of its AUROC over the same resamples.
    """
    return mean_confidence[1] - mean_confidence[0] < _TOLERANCE or auroc[0] <= 0.5 <= auroc[1]


_TOLERANCE = 1e-9
"""Tolerance of the comparison, since the mean of equal shares over seeds may round to either side of them."""


def shortfalls(rates: Mapping[str, float], floors: QualitySettings) -> dict[str, float]:
    """Return the rates that lie below their floors; NaN and missing rates are never below."""
    known = floors.model_dump()
    return {name: rates[name] for name, floor in known.items() if name in rates and rates[name] < floor - _TOLERANCE}
