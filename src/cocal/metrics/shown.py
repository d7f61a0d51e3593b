"""Numbers as tables and figures show them: which way is better, and how they are printed."""

import math
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pandas as pd

Better = Literal["higher", "lower"]

UNDEFINED = "–"
"""Printed where there is no value; it is never ranked."""

BETTER: dict[str, Better | None] = {
    "accuracy": "higher",
    "mean_confidence": None,
    "ece": "lower",
    "auroc": "higher",
}
"""Direction of each metric; mean confidence is neither good nor bad."""


def metric_text(metric: str, value: float) -> str:
    """A metric: accuracy in percent with one decimal, the others with three."""
    if math.isnan(value):
        return UNDEFINED
    # First to 9 decimals: equal accuracies, one of them averaged over seeds, must not round apart at x.x5.
    return f"{round(100 * value, 9):.1f}" if metric == "accuracy" else f"{round(value, 9):.3f}"


def csv_text(numbers: "pd.DataFrame") -> str:
    """The prepared numbers; twelve digits, so that the last bit of a sum does not show."""
    return numbers.to_csv(index=False, float_format="%.12g", na_rep="NaN", lineterminator="\n")
