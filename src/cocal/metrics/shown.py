"""The number formats of tables and figures."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

UNDEFINED = "–"
"""Text of an undefined value, which is never ranked."""


def metric_text(metric: str, value: float) -> str:
    """A metric in print: accuracies in percent with one decimal, the others with three decimals."""
    if math.isnan(value):
        return UNDEFINED
    # Rounding to 9 decimals first makes equal accuracies print alike even if one is an average over seeds near x.x5.
    percent = metric.startswith("accuracy")
    return f"{round(100 * value, 9):.1f}" if percent else f"{round(value, 9):z.3f}"


def csv_text(numbers: "pd.DataFrame") -> str:
    """A table as CSV, with twelve digits so that rounding errors in the last bits do not show."""
    return numbers.to_csv(index=False, float_format="%.12g", na_rep="NaN", lineterminator="\n")
