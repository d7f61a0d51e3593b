"""Settings of the confidence metrics."""

from typing import Annotated

from pydantic import Field

from cocal.settings.base import Count, Model


class MetricSettings(Model):
    """Confidence metrics and their intervals (appendix A.2)."""

    bins: Count = 10
    resamples: Annotated[int, Field(ge=0)] = 1000
    """Number of bootstrap resamples of the questions; 0 leaves the intervals out."""
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Confidence level of the intervals."""
    seed: int = 42
