"""Responses that are stopped while they grow, where their confidence falls below a threshold."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from cocal.errors import ContractError
from cocal.metrics.choices import candidates, certified, first
from cocal.own_policy.scored import Reading, Scored, check_calibration, read_scored
from cocal.own_policy.scoring import COURSE
from cocal.settings.base import Count, Model, Share
from cocal.store.rows import entries


class _Course(Model):
    """The course of a confidence, as `cocal score --every` writes it."""

    every: Count
    tokens: Count
    values: list[Share]


@dataclass(frozen=True)
class Courses:
    """Scored responses with the courses of their confidences.

    Attributes:
        scored: The responses.
        every: Number of tokens between confidences.
        tokens: int64 (n,), tokens of each whole response.
        values: Confidences of each response after every so many tokens.
    """

    scored: Scored
    every: int
    tokens: np.ndarray
    values: list[np.ndarray]

    def stopped(self, below: float) -> np.ndarray:
        """The number of tokens after which each response falls below a threshold; 0 where it never does. int64 (n,)."""
        places = (np.flatnonzero(one < below) for one in self.values)
        return np.array([self.every * (1 + one[0]) if len(one) else 0 for one in places])

    def lowest(self) -> np.ndarray:
        """The lowest confidence of the first response to each question, float64 (q,); NaN where none is below 1."""
        found = np.array([self.values[row].min(initial=1.0) for row in first(self.scored.question)])
        return np.where(found < 1, found, np.nan)


def read_courses(source: Path, reading: Reading, added: Sequence[str] = ()) -> Courses:
    """Read confidences with their courses; see `cocal.own_policy.scored.read_scored`.

    Raises:
        ContractError: if a line has no course, or one of another form or with another number of tokens between
            confidences; the message names file and row.
    """
    scored = read_scored(source, reading, ("question",), added)
    found, name = [], reading.field + COURSE
    for where, _, entry in entries(source):
        if name not in entry:
            raise ContractError(f"{where}: there is no field {name!r}; add it by `cocal score --every 16`")
        try:
            found.append(_Course.model_validate(entry[name], strict=True))
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise ContractError(f"{where}: field {name!r} is no course of `cocal score --every` ({reason})") from None
        if found[-1].every != found[0].every:
            raise ContractError(
                f"{where}: the confidences are those after every {found[-1].every} tokens, but after every "
                f"{found[0].every} above; score all lines with the same --every"
            )
    tokens = np.array([one.tokens for one in found])
    return Courses(scored, found[0].every, tokens, [np.array(one.values, dtype=np.float64) for one in found])


def threshold_to_stop(new: Courses, old: Courses, *, max_risk: float, delta: float) -> float | None:
    """The confidence below which growing responses are stopped, certified as that of abstention is
    (`cocal.metrics.choices.certified`): thresholds that stop more and more are tested; None if none is certified.

    The first response to each question is the one that is looked at.

    Args:
        new: Responses to the questions to decide, of which no label is read.
        old: Labelled responses to other questions from the same source.
        max_risk: Largest share of right ones among the stopped responses.
        delta: Largest probability that the threshold breaks this bound.

    Raises:
        ContractError: if the calibration has no labels, shares a question, or has another number of tokens between
            confidences.
    """
    check_calibration(new.scored, old.scored)
    if old.every != new.every:
        raise ContractError(
            f"{old.scored.source}: confidences after every {old.every} tokens, but after every {new.every} in "
            f"{new.scored.source}; score both with the same --every"
        )
    wrong = ~old.scored.correct[first(old.scored.question)]
    found = certified(-old.lowest(), wrong, candidates(-new.lowest()), max_risk=max_risk, delta=delta)
    return None if found is None else float(np.nextafter(-found, 1))  # what has this confidence is stopped, too
