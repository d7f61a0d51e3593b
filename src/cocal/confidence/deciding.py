"""Decisions among scored responses, and about responses that are still growing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from cocal.answers.equivalence import Verifier
from cocal.answers.judge import ExactMatch
from cocal.answers.settings import VerifierSettings
from cocal.confidence import LEARNT, LEARNT_FROM, TRAJECTORY
from cocal.confidence.scored import Scored, parsed, read_scored
from cocal.errors import ContractError
from cocal.fitting.held_out import LEAST_QUESTIONS
from cocal.metrics.bootstrap import centred_interval, generator_for, resampled_means
from cocal.metrics.choices import best_of_n, candidates, certified, first, vote
from cocal.metrics.settings import MetricSettings
from cocal.rollouts.format import Reading
from cocal.settings.base import Count, Model, Share
from cocal.store import atomic_path
from cocal.store.rows import entries, extended, listed


def classes_of(pools: Scored, domain: Literal["mathematics", "factual"]) -> np.ndarray:
    """Equivalence class of each response's answer within its question, int64 (n,); -1 without an answer.

    Mathematical answers are compared by the verifier, factual ones by exact match. Raises a ContractError if no
    response has an answer.
    """
    if pools.without_answers:
        raise ContractError(f"{pools.source}: there is nothing to vote on, since {pools.without_answers}")
    given = pools.answers, pools.question.tolist(), [""] * len(pools.answers)
    if domain == "factual":
        return ExactMatch().classes(*given).values
    with Verifier(VerifierSettings()) as verifier:
        return verifier.classes(*given).values


def rules(pools: Scored, classes: np.ndarray | None) -> dict[str, np.ndarray]:
    """The row that each rule chooses for every question, int64 (q,); votes only if answers were compared."""
    rows = {"best-of-n": best_of_n(pools.question, pools.confidence)}
    if classes is not None:
        rows["vote"] = vote(pools.question, classes, pools.confidence)
        rows["majority"] = vote(pools.question, classes)
    return rows | {"first": first(pools.question)}


def accuracies(pools: Scored, chosen: Mapping[str, np.ndarray], settings: MetricSettings) -> pd.DataFrame:
    """Accuracy of the responses that rules choose, with intervals over questions (rule, value, lower, upper)."""
    right = np.array([pools.correct[rows] for rows in chosen.values()], dtype=np.float64)
    value = right.mean(axis=1)
    drawn = resampled_means(right, settings.resamples, generator_for(settings.seed, "questions"))
    lower, upper = centred_interval(value, drawn, settings.level)
    if len(pools.names) < LEAST_QUESTIONS:
        lower = upper = np.nan
    return pd.DataFrame({"rule": [*chosen], "value": value, "lower": lower, "upper": upper})


def threshold_for(pools: Scored, calibration: Scored, *, max_risk: float, delta: float) -> float | None:
    """The lowest confidence at which questions are answered (`certified`); None if no threshold is certified.

    The most confident response to each question is used: `pools` holds responses to the questions to decide, and
    `calibration` labelled ones to other questions from the same source. Raises a ContractError if the calibration has
    no labels, a prompt that the companion learnt from, or a question of the other file, or if a question in either file
    has another number of responses than most of the calibration.
    """
    _check_calibration(pools, calibration)
    usual = int(np.bincount(calibration.sizes).argmax())
    for scored in (calibration, pools):
        if len(others := np.flatnonzero(scored.sizes != usual)):
            name, size = scored.names[others[0]], scored.sizes[others[0]]
            raise ContractError(
                f"{scored.source}: {len(others):,} of its {len(scored.names):,} questions have another number of "
                f"responses than {usual}, the usual one in {calibration.source}, such as {name[:60]!r} with {size}; "
                "the most confident of another number of responses is no guide: give as many to every question"
            )
    certifying = best_of_n(calibration.question, calibration.confidence)
    offered = candidates(pools.confidence[best_of_n(pools.question, pools.confidence)])
    confidence, correct = calibration.confidence[certifying], calibration.correct[certifying]
    return certified(confidence, correct, offered, max_risk=max_risk, delta=delta)


def _check_calibration(pools: Scored, calibration: Scored) -> None:
    if calibration.correct is None:
        raise ContractError(
            f"{calibration.source}: the lines have no labels; a threshold is certified by responses with `correct` or "
            "a reward"
        )
    if calibration.companions != pools.companions and calibration.companions and pools.companions:
        old, new = (listed(sorted(scored.companions)) for scored in (calibration, pools))
        raise ContractError(
            f"{calibration.source}: its confidences are by another companion, target or seed than those of "
            f"{pools.source} ({old} against {new}); a threshold holds for the confidences that certify it: score both "
            "alike"
        )
    # On prompts that were learnt from, confidences reflect labels, perhaps these very ones: such lines are not drawn
    # like those of new responses, whatever prompts the new file has.
    if calibration.learnt:
        raise ContractError(
            f"{calibration.source}: {calibration.learnt:,} of its {len(calibration.question):,} prompts are {LEARNT}; "
            f"a threshold holds for questions like those that certify it: leave out the lines where "
            f"{calibration.name + LEARNT_FROM!r} is true"
        )
    if both := {number for key, number in calibration.known.items() if key in pools.known}:
        key = calibration.names[min(both)]
        raise ContractError(
            f"{calibration.source}: {len(both):,} of its questions are also in {pools.source}, such as {key[:60]!r}; a "
            "threshold holds for other questions than those that certify it: take them out of one of the files"
        )


class _Trajectory(Model):
    """The trajectory of a confidence, as `cocal score --every` writes it."""

    every: Count
    tokens: Count
    values: list[Share]


@dataclass(frozen=True)
class Trajectories:
    """Scored responses with the trajectories of their confidences.

    Attributes:
        every: Number of tokens between confidences.
        tokens: int64 (n,), tokens of each whole response.
        values: Confidences of each response after each multiple of `every` tokens.
    """

    scored: Scored
    every: int
    tokens: np.ndarray
    values: list[np.ndarray]

    def stopped(self, below: float) -> np.ndarray:
        """The number of tokens, int64 (n,), at which each confidence falls below a threshold; 0 if it never does."""
        places = (np.flatnonzero(trajectory < below) for trajectory in self.values)
        return np.array([self.every * (1 + hits[0]) if len(hits) else 0 for hits in places])

    def lowest(self) -> np.ndarray:
        """The lowest confidence of the first response to each question, float64 (q,); NaN where none is below 1."""
        lowest = np.array([self.values[row].min(initial=1.0) for row in first(self.scored.question)])
        return np.where(lowest < 1, lowest, np.nan)


def read_trajectories(
    source: Path, reading: Reading, added: Sequence[str] = (), name: str = "confidence"
) -> Trajectories:
    """Read confidences with their trajectories (`read_scored`). Raises a ContractError that names file and row if a
    line has no trajectory, or one of another form or interval."""
    scored = read_scored(source, reading, ("question",), added, name=name)
    trajectories, name = [], name + TRAJECTORY
    for where, _, entry in entries(source):
        if name not in entry:
            raise ContractError(f"{where}: there is no field {name!r}; add it by `cocal score --every 16`")
        trajectories.append(parsed(_Trajectory, entry[name], where, name))
        if trajectories[-1].every * len(trajectories[-1].values) > trajectories[-1].tokens:
            raise ContractError(
                f"{where}: field {name!r} is no trajectory of `cocal score --every`: it outlasts its tokens"
            )
        if trajectories[-1].every != trajectories[0].every:
            raise ContractError(
                f"{where}: the confidences are those after every {trajectories[-1].every} tokens, but after every "
                f"{trajectories[0].every} above; score all lines with the same --every"
            )
    tokens = np.array([trajectory.tokens for trajectory in trajectories])
    return Trajectories(
        scored,
        trajectories[0].every,
        tokens,
        [np.array(trajectory.values, dtype=np.float64) for trajectory in trajectories],
    )


def threshold_to_stop(new: Trajectories, old: Trajectories, *, max_risk: float, delta: float) -> float | None:
    """The confidence below which growing responses are stopped, certified like that of abstention (`threshold_for`) by
    testing thresholds that stop more and more; None if none is.

    The first response to each question counts. With a probability of at most `delta` the share of correct responses
    among the stopped ones is above `max_risk`. Raises a ContractError if the calibration has no labels, a question of
    the other file, or another number of tokens between confidences.
    """
    _check_calibration(new.scored, old.scored)
    if old.every != new.every:
        raise ContractError(
            f"{old.scored.source}: confidences after every {old.every} tokens, but after every {new.every} in "
            f"{new.scored.source}; score both with the same --every"
        )
    wrong = ~old.scored.correct[first(old.scored.question)]
    bound = certified(-old.lowest(), wrong, candidates(-new.lowest()), max_risk=max_risk, delta=delta)
    return None if bound is None else float(np.nextafter(-bound, 1))  # what has this confidence is stopped, too


def write_decisions(pools: Scored, rows: np.ndarray, added: Mapping[str, list], target: Path) -> None:
    """Write the lines of the responses in `rows`, int64 (q,), in the order of their file, each with further fields:
    `added` maps the name of each field to its values for the questions."""
    asked = dict(zip(rows.tolist(), range(len(rows)), strict=True))
    with atomic_path(target) as partial, partial.open("w", encoding="utf-8", newline="\n") as output:
        for row, (_, text, _) in enumerate(entries(pools.source)):
            if row in asked:
                output.write(extended(text, {name: values[asked[row]] for name, values in added.items()}))
