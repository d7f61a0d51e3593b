"""The quality of confidences, measured against correctness, also as the fields of `CompanionConfig`."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
import pandas as pd

from cocal.fitting.baselines import FLAG
from cocal.fitting.config import CompanionConfig
from cocal.fitting.held_out import LEAST_COMPARED, LEAST_QUESTIONS, HeldOut, ResponseStatistics
from cocal.metrics.bootstrap import centred_interval, generator_for, resampled_means, resampled_metrics
from cocal.metrics.calibration import evaluate, reliability_bins
from cocal.metrics.scores import ALL, LEAST, MOST, PAIRED, Sample, scores
from cocal.metrics.settings import MetricSettings
from cocal.rollouts.experience import Experience

WRONG_WAY = "wrong responses have the higher confidences: is either, label or confidence, the wrong way round?"
"""Warning for an AUROC whose whole interval lies below 0.5."""
LAST_STAGE = 10
"""Number of parts of the steps, the last of which is the last stage; its responses are like the finished policy's."""


def compared(confidence: np.ndarray, correct: np.ndarray) -> dict[str, float | None]:
    """Mean, ECE, AUROC and Brier score of confidences, float64 (n,), by correctness, bool (n,); None if undefined."""
    measures = evaluate(confidence, np.ones(len(correct), dtype=bool), correct, MetricSettings().bins)
    names = ("mean_confidence", "ece", "auroc")
    values = {name: None if np.isnan(measures[name]) else float(measures[name]) for name in names}
    return values | {"brier": float(np.square(confidence - correct).mean())}


def measured(
    questions: Sequence[str] | np.ndarray,
    confidence: np.ndarray,
    correct: np.ndarray,
    settings: MetricSettings | None = None,
    metrics: Sequence[str] = ALL,
) -> pd.DataFrame:
    """Measure confidences against correctness.

    Args:
        questions: Name or text of the question of each response; responses to one question are resampled together.
        confidence, correct: float64 (n,) in [0, 1], NaN for a response that counts for the accuracy alone; bool (n,).
        settings: Bins, resamples, level and seed; by default the paper's ten bins, and 1000 resamples at 95 %.
        metrics: Names of the metrics, `cocal.metrics.scores.ALL`, or `PAIRED`, which take less time.

    Returns:
        One row for each of the metrics with the columns metric, value, lower and upper; NaN where a
        metric is undefined, and bounds also where there are fewer than `LEAST_QUESTIONS` questions.
    """
    settings = settings or MetricSettings()
    names, place = np.unique(np.asarray(questions, dtype=object).astype(str), return_inverse=True)
    measures = evaluate(confidence, ~np.isnan(confidence), correct, settings.bins)
    measures |= scores(confidence, correct, settings.bins, metrics)
    values = np.array([measures[name] for name in metrics])
    resampled = resampled_metrics(
        [Sample(place, confidence, correct)],
        len(names),
        bins=settings.bins,
        resamples=settings.resamples,
        generator=generator_for(settings.seed, "responses"),
        names=metrics,
    )[0]
    least, most = ([bounds[name] for name in metrics] for bounds in (LEAST, MOST))
    lower, upper = centred_interval(values, resampled.T, settings.level, least, most)
    valid = len(np.unique(place[~np.isnan(confidence)]))  # the accuracy alone counts the others, too
    few = np.array([(len(names) if name == "accuracy" else valid) < LEAST_QUESTIONS for name in metrics])
    lower, upper = (np.where(few, np.nan, ends) for ends in (lower, upper))
    return pd.DataFrame({"metric": metrics, "value": values, "lower": lower, "upper": upper})


def quality_of(
    questions: Sequence[str] | np.ndarray,
    confidence: np.ndarray,
    correct: np.ndarray,
    others: Mapping[str, np.ndarray],
    settings: MetricSettings | None = None,
    table: pd.DataFrame | None = None,
    **stated: Any,
) -> HeldOut:
    """The quality of a confidence beside that of others, by their names, on the same responses, none of them NaN.

    Args:
        questions, confidence, correct, settings: See `measured`.
        others: float64 (n,), each of the others by its name.
        table: The result of `measured` for these, if it is already known; by default that of the metrics `PAIRED`,
            since the others take longer than a fit where there are hundreds of thousands of responses.
        stated: Further fields of `HeldOut`.
    """
    settings = settings or MetricSettings()
    ends = _differences(questions, confidence, [*others.values()], correct, settings)
    each = zip(others.items(), ends, strict=True)
    return HeldOut.of(
        measured(questions, confidence, correct, settings, PAIRED) if table is None else table,
        bins=reliability_bins(confidence, correct, settings.bins).query("count > 0").to_dict("records"),
        responses=len(correct),
        questions=len({*questions}),
        constant=float(correct.var()),
        others={name: compared(other, correct) | interval for (name, other), interval in each},
        **stated,
    )


def _differences(
    questions: Sequence[str] | np.ndarray,
    confidence: np.ndarray,
    others: Sequence[np.ndarray],
    correct: np.ndarray,
    settings: MetricSettings,
) -> list[dict[str, float]]:
    """The interval (`lower`, `upper`) of each other confidence's Brier score less that of the confidence, over
    resampled questions; empty where there are fewer than `LEAST_COMPARED`."""
    names, place = np.unique(np.asarray(questions, dtype=object).astype(str), return_inverse=True)
    if len(names) < LEAST_COMPARED:
        return [{} for _ in others]
    excess = [(other - correct) ** 2 - (confidence - correct) ** 2 for other in others]
    sums = np.stack([np.bincount(place, weights) for weights in [*excess, np.ones(len(place))]])
    drawn = resampled_means(sums, settings.resamples, generator_for(settings.seed, "differences"))
    value = sums[:-1].sum(axis=1) / len(place)
    bounds = centred_interval(value, drawn[:-1] / drawn[-1], settings.level, -1)
    return [{"lower": lower, "upper": upper} for lower, upper in np.transpose(bounds).tolist()]


def last_stage(experience: Experience, held_out: np.ndarray) -> np.ndarray:
    """Mark the last stage, bool (n,), from the last tenth of held-out steps on, or of held-out rows without steps."""
    moment = experience.rows["step" if experience.has_steps else "response_id"].to_numpy()
    moments = np.unique(moment[held_out])
    return moment >= moments[-ceil(len(moments) / LAST_STAGE)]


def measured_fields(
    config: CompanionConfig,
    experience: Experience,
    held_out: np.ndarray,
    confidence: np.ndarray,
    others: dict[str, np.ndarray],
) -> dict[str, HeldOut | ResponseStatistics | None]:
    """The fields of `CompanionConfig` that tell the quality of a confidence, float64 (n,), and of others by name,
    on the responses to held-out questions, bool (n,), truncated ones included."""
    settings, rows = config.spec.settings, experience.rows
    last, truncated = last_stage(experience, held_out), rows["truncated"].to_numpy()

    def quality(chosen: np.ndarray, told: Mapping[str, np.ndarray] = others) -> HeldOut:
        held = rows[chosen]
        return quality_of(
            held["question"],
            confidence[chosen],
            held["correct"].to_numpy(),
            {name: other[chosen] for name, other in told.items()},
            steps=(int(held["step"].min()), int(held["step"].max())) if experience.has_steps else None,
            truncated=float(held["truncated"].mean()) if experience.tells_truncated else None,
            seeds=settings.seeds,
            target=config.spec.usual_target,
        )

    alike = {name: other for name, other in others.items() if name != FLAG}  # it says one thing of all of these
    stage, apart = rows[last], experience.tells_truncated and 0 < truncated[held_out].mean() < 1
    return {
        "held_out": quality(held_out & last),
        "held_out_all_steps": None if last[held_out].all() else quality(held_out),
        "held_out_complete": quality(held_out & ~truncated, alike) if apart else None,
        "held_out_truncated": quality(held_out & truncated, alike) if apart else None,
        "rollouts": ResponseStatistics.of(stage["length"], stage["truncated"] if experience.tells_truncated else None),
    }
