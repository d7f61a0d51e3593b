"""The printed form of numbers: units of time, ratios, signed differences, and the titles of metrics."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cocal.metrics.shown import UNDEFINED, metric_text

HEADS = {
    "accuracy": "Acc.↑",
    "mean_confidence": "MeanConf",
    "ece": "ECE↓",
    "auroc": "AUROC↑",
    "brier": "Brier↓",
    "brier_reliability": "Rel.↓",
    "brier_resolution": "Res.↑",
    "brier_uncertainty": "Unc.",
    "log_loss": "LogLoss↓",
    "adaptive_ece": "AdaECE↓",
    "smooth_ece": "SmECE↓",
    "aurc": "AURC↓",
    "augrc": "AUGRC↓",
    "prr": "PRR↑",
    "accuracy_at_80": "Acc@80↑",
    "accuracy_at_50": "Acc@50↑",
}
"""Column titles of the metrics. The arrow points to the better values."""


@dataclass(frozen=True)
class Unit:
    """A unit of time and its length in seconds."""

    name: str
    seconds: float


_HOUR, _MINUTE, _SECOND, _MILLISECOND = Unit("h", 3600.0), Unit("min", 60.0), Unit("s", 1.0), Unit("ms", 1e-3)
LONG = (_HOUR, _MINUTE, _SECOND)
"""Units for work that is done once, longest first."""
SHORT = (_SECOND, _MILLISECOND)
"""Units for work that is done for every question."""


def times(seconds: Sequence[float], units: Sequence[Unit]) -> tuple[Unit, list[str]]:
    """Print one column of times in one unit, the longest unit that the longest time reaches.

    Times have two decimals, or more if the shortest time is below one unit, so that it shows three significant digits.

    Args:
        seconds: Times, NaN where there is none; at least one is a time.
        units: Units to choose from, longest first.

    Returns:
        The unit and the printed times, `UNDEFINED` where there is none.
    """
    known = [time for time in seconds if not math.isnan(time)]
    unit = next((unit for unit in units if max(known) >= unit.seconds), units[-1])
    shortest = min(known) / unit.seconds
    decimals = max(2, 2 - math.floor(math.log10(shortest)))
    return unit, [UNDEFINED if math.isnan(time) else f"{time / unit.seconds:,.{decimals}f}" for time in seconds]


def ratios(values: Sequence[float]) -> list[str]:
    """Print one column of ratios as whole numbers, or with one decimal if any of them is below ten."""
    decimals = 0 if min(values) >= 10 else 1
    return [f"{value:.{decimals}f}×" for value in values]


def signed(metric: str, value: float) -> str:
    """Print a difference of a metric with its sign; zero and an undefined value have none."""
    text = metric_text(metric, value).replace("-", "−")
    return f"+{text}" if text[0].isdigit() and text.strip("0.") else text
