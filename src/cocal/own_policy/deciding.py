"""Decisions among scored responses: which one a question gets, and whether it is answered at all."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from cocal.answers.equivalence import Verifier
from cocal.answers.judge import ExactMatch
from cocal.config.evaluation import MetricSettings, VerifierSettings
from cocal.errors import ContractError
from cocal.metrics.bootstrap import centred_interval, generator_for, resampled_means
from cocal.metrics.choices import best_of_n, candidates, certified, first, vote
from cocal.own_policy.scored import Scored
from cocal.store import atomic_path
from cocal.store.rows import entries, extended

Domain = Literal["mathematics", "factual"]


def classes_of(pools: Scored, domain: Domain) -> np.ndarray:
    """Class of each answer within its question, int64 (n,), -1 without an answer, as self-consistency has them.

    Mathematical answers are compared by the verifier, factual ones by exact match.

    Raises:
        ContractError: if no response has an answer.
    """
    if reason := pools.without_answers:
        raise ContractError(f"{pools.source}: there is nothing to vote on, since {reason}")
    texts = [""] * len(pools.answers)
    if domain == "factual":
        return ExactMatch().classes(pools.answers, pools.question.tolist(), texts).values
    with Verifier(VerifierSettings()) as verifier:
        return verifier.classes(pools.answers, pools.question.tolist(), texts).values


def rules(pools: Scored, classes: np.ndarray | None) -> dict[str, np.ndarray]:
    """The row that each rule chooses for every question, int64 (q,); the votes only where answers were compared."""
    found = {"best-of-n": best_of_n(pools.question, pools.confidence)}
    if classes is not None:
        found["vote"] = vote(pools.question, classes, pools.confidence)
        found["majority"] = vote(pools.question, classes)
    return found | {"first": first(pools.question)}


def vote_shares(pools: Scored, classes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Share of the confidence in all answers to a question that the answer of its chosen response gathers; NaN where
    no response has both an answer and a confidence. float64 (q,)."""
    weights = np.where(classes >= 0, np.nan_to_num(pools.confidence, nan=0.0), 0.0)
    alike = classes == classes[rows][pools.question]
    won, all_of = (np.bincount(pools.question, weights=part) for part in (weights * alike, weights))
    with np.errstate(invalid="ignore"):  # 0 / 0 where nobody has a vote
        return won / all_of


def accuracies(pools: Scored, chosen: Mapping[str, np.ndarray], settings: MetricSettings) -> pd.DataFrame:
    """Accuracy of the responses that rules choose, with intervals of a bootstrap over the questions.

    Returns:
        Columns rule, value, lower and upper.
    """
    right = np.array([pools.correct[rows] for rows in chosen.values()], dtype=np.float64)
    value = right.mean(axis=1)
    drawn = resampled_means(right, settings.resamples, generator_for(settings.seed, "questions"))
    lower, upper = centred_interval(value, drawn, settings.level)
    return pd.DataFrame({"rule": [*chosen], "value": value, "lower": lower, "upper": upper})


def threshold_for(pools: Scored, calibration: Scored, *, max_risk: float, delta: float) -> float | None:
    """The confidence from which on questions are answered (`cocal.metrics.choices`); None if none is certified.

    The most confident response to each question is the one that would be given, in both files.

    Args:
        pools: Responses to the questions to decide.
        calibration: Labelled responses to other questions from the same source.
        max_risk: Largest share of wrong answers among the answered questions.
        delta: Largest probability that the threshold breaks this bound.

    Raises:
        ContractError: if the calibration has no labels, shares a question, or has pools of another size.
    """
    if calibration.correct is None:
        raise ContractError(
            f"{calibration.source}: the lines have no labels; a threshold is certified by responses with `correct` or "
            "a reward"
        )
    if both := {*pools.names} & {*calibration.names}:
        one = next(name for name in calibration.names if name in both)
        raise ContractError(
            f"{calibration.source}: {len(both):,} of its questions are also in {pools.source}, such as {one[:60]!r}; a "
            "threshold holds for other questions than those that certify it: take them out of one of the files"
        )
    if calibration.largest != pools.largest:
        raise ContractError(
            f"{calibration.source}: up to {calibration.largest} responses to a question, but up to {pools.largest} in "
            f"{pools.source}; the most confident of another number of responses is no guide: give as many in both"
        )
    certifying = best_of_n(calibration.question, calibration.confidence)
    deciding = best_of_n(pools.question, pools.confidence)
    return certified(
        calibration.confidence[certifying],
        calibration.correct[certifying],
        candidates(pools.confidence[deciding]),
        max_risk=max_risk,
        delta=delta,
    )


def write_decisions(pools: Scored, rows: np.ndarray, added: Mapping[str, list], target: Path) -> None:
    """Write the lines of the chosen responses, with further fields, in the order of the file.

    Args:
        pools: What was read of the file.
        rows: int64 (q,), row of each question's response.
        added: A value for each question, by the name of the field.
        target: File of JSON lines.
    """
    asked = dict(zip(rows.tolist(), range(len(rows)), strict=True))
    with atomic_path(target) as partial, partial.open("w", encoding="utf-8", newline="\n") as output:
        for row, (_, text, _) in enumerate(entries(pools.source)):
            if row in asked:
                output.write(extended(text, {name: values[asked[row]] for name, values in added.items()}))
