"""The direction in which each metric is better."""

from typing import Literal

Better = Literal["higher", "lower"]

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
    "auroc_within": "higher",
}
"""Direction of each metric; mean confidence is neither good nor bad, and the uncertainty belongs to the responses."""
