"""The number formats of tables and figures, and the direction in which each metric is better."""

import math
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pandas as pd

Better = Literal["higher", "lower"]

UNDEFINED = "–"
"""Text of an undefined value, which is never ranked."""

BETTER: dict[str, Better | None] = {
    "accuracy": "higher",
    "mean_confidence": None,
    "ece": "lower",
    "auroc": "higher",
    "brier": "lower",
    "brier_reliability": "lower",
    "brier_resolution": "higher",
    "brier_uncertainty": None,
    "log_loss": "lower",
    "adaptive_ece": "lower",
    "smooth_ece": "lower",
    "aurc": "lower",
    "augrc": "lower",
    "prr": "higher",
    "accuracy_at_80": "higher",
    "accuracy_at_50": "higher",
}
"""Direction of each metric; mean confidence is neither good nor bad, and the uncertainty belongs to the responses."""


def metric_text(metric: str, value: float) -> str:
    """Format a metric: accuracies in percent with one decimal, the others with three decimals."""
    if math.isnan(value):
        return UNDEFINED
    # Rounding to 9 decimals first makes equal accuracies print alike even if one is an average over seeds near x.x5.
    percent = metric.startswith("accuracy")
    return f"{round(100 * value, 9):.1f}" if percent else f"{round(value, 9):z.3f}"


def csv_text(numbers: "pd.DataFrame") -> str:
    """Format a table as CSV, with twelve digits so that rounding errors in the last bits do not show."""
    return numbers.to_csv(index=False, float_format="%.12g", na_rep="NaN", lineterminator="\n")
