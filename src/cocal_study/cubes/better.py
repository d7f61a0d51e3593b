"""The titles of the metrics, and the direction in which each is better."""

from typing import Any, Literal

Better = Literal["higher", "lower"]

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
    "auroc_within": "W-AUROC↑",
}
"""Column titles of the metrics. The arrow points to the better values; mean confidence is neither good nor bad, and the
uncertainty belongs to the responses."""
_ARROWS: dict[str, Better] = {"↑": "higher", "↓": "lower"}
BETTER: dict[str, Better | None] = {name: _ARROWS.get(head[-1]) for name, head in HEADS.items()}
"""Direction of each metric; None if neither direction is better."""
CONFIDENCE_QUALITY = ("ece", "auroc")
"""Metrics of the tables and figures with a pair of columns or panels."""


def gain(metric: str, difference: Any) -> Any:
    """One or several differences of a metric, signed so that they are positive where the first number is better."""
    return -difference if BETTER[metric] == "lower" else difference
