"""The quality of confidences that are held against correctness."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cocal.metrics.bootstrap import centred_interval, generator_for, resampled_metrics
from cocal.metrics.calibration import evaluate
from cocal.metrics.scores import ALL, LEAST, MOST, Sample, scores
from cocal.metrics.settings import MetricSettings
from cocal.own_policy.facts import LEAST_QUESTIONS


def compared(confidence: np.ndarray, correct: np.ndarray) -> dict[str, float | None]:
    """Mean, ECE, AUROC and Brier score of another confidence, float64 (n,) in [0, 1]; None where one is undefined."""
    found = evaluate(confidence, np.ones(len(correct), dtype=bool), correct, MetricSettings().bins)
    found |= scores(confidence, correct, MetricSettings().bins)
    names = ("mean_confidence", "ece", "auroc", "brier")
    return {name: None if np.isnan(found[name]) else float(found[name]) for name in names}


def measured(
    questions: Sequence[str] | np.ndarray,
    confidence: np.ndarray,
    correct: np.ndarray,
    settings: MetricSettings | None = None,
) -> pd.DataFrame:
    """Measure confidences against correctness.

    Args:
        questions: Name or text of the question of each response; responses to one question are resampled together.
        confidence: float64 (n,) in [0, 1], NaN where there is no valid confidence; such a response counts for the
            accuracy alone.
        correct: bool (n,), whether each response is correct.
        settings: Bins, resamples, level and seed; by default the paper's ten bins, and 1000 resamples at 95 %.

    Returns:
        One row for each of `cocal.metrics.scores.ALL` with the columns metric, value, lower and upper; NaN where a
        metric is undefined, and bounds also where there are fewer than `LEAST_QUESTIONS` questions.
    """
    settings = settings or MetricSettings()
    names, place = np.unique(np.asarray(questions, dtype=object).astype(str), return_inverse=True)
    found = evaluate(confidence, ~np.isnan(confidence), correct, settings.bins)
    found |= scores(confidence, correct, settings.bins)
    values = np.array([found[name] for name in ALL])
    resampled = resampled_metrics(
        [Sample(place, confidence, correct)],
        len(names),
        bins=settings.bins,
        resamples=settings.resamples,
        generator=generator_for(settings.seed, "responses"),
        names=ALL,
    )[0]
    least, most = ([bounds[name] for name in ALL] for bounds in (LEAST, MOST))
    lower, upper = centred_interval(values, resampled.T, settings.level, least, most)
    if len(names) < LEAST_QUESTIONS:
        lower = upper = np.full(len(ALL), np.nan)
    return pd.DataFrame({"metric": ALL, "value": values, "lower": lower, "upper": upper})
