"""Decisions from a file of scored responses: which response a question gets, and whether it is answered at all."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from cocal.answers.equivalence import Verifier
from cocal.answers.extraction import extract_answer
from cocal.answers.judge import ExactMatch
from cocal.config.evaluation import MetricSettings, VerifierSettings
from cocal.errors import ContractError
from cocal.integrations.lines import FIELDS, NEEDED, Fields, confidence
from cocal.metrics.abstention import candidates, certified
from cocal.metrics.bootstrap import centred_interval, generator_for, resampled_means
from cocal.metrics.choices import best_of_n, first, vote
from cocal.own_policy.experience import correctness
from cocal.store import atomic_path
from cocal.store.rows import entries, extended, shown

Domain = Literal["mathematics", "factual"]
ANSWER, BOXED = "answer", "boxed"
"""Field of the answer, where lines have it; otherwise the answer is the content of the response's last box."""


@dataclass(frozen=True)
class Reading:
    """What is read of a file of scored responses, and under which names.

    Attributes:
        mapping: Names of fields by their meaning (`cocal.integrations.lines.FIELDS`).
        field: Name of the field of the confidence; null means that there is no valid one.
        answer: Name of the field of the answer, or `BOXED`; by default `ANSWER`, or `BOXED` where there is no such
            field.
        correct_above: A reward above this number is a correct response.
    """

    mapping: Mapping[str, str]
    field: str = "confidence"
    answer: str | None = None
    correct_above: float | None = None


@dataclass(frozen=True)
class Pools:
    """Scored responses by question, in the order of the file.

    Attributes:
        source: The file.
        names: What tells each of q questions, in the order in which they first occur.
        question: int64 (n,), question of each response, an index into `names`.
        confidence: float64 (n,), NaN where there is none.
        correct: bool (n,), or None where the file has no labels.
        answers: Answer of each response; None for a response without one.
        source_of_answers: What was read for the answers, in words.
        notes: What was read for what.
    """

    source: Path
    names: list[str]
    question: np.ndarray
    confidence: np.ndarray
    correct: np.ndarray | None
    answers: list[str | None]
    source_of_answers: str
    notes: tuple[str, ...]

    @property
    def largest(self) -> int:
        """The largest number of responses to a question."""
        return int(np.bincount(self.question).max())

    @property
    def without_answers(self) -> str | None:
        """Why no response has an answer, and the remedy; None if one has."""
        if any(answer is not None for answer in self.answers):
            return None
        return (
            f"no response has an answer ({self.source_of_answers}): name the field of the response that ends in "
            "\\boxed{...} (--field response=FIELD), or that of the answer itself (--answer FIELD)"
        )


def read_pools(source: Path, reading: Reading, added: tuple[str, ...] = (), *, answers: bool = False) -> Pools:
    """Read the responses of a file.

    Args:
        source: JSON lines, as `cocal score` writes them; the responses to a question need not stand together.
        reading: Names of the fields.
        added: Fields that the decision adds, which the lines must not have yet.
        answers: Whether answers are read; otherwise no response has one.

    Raises:
        ContractError: if a line names no question, its confidence is not from 0 to 1, it lacks a label that others
            have, or a field has the wrong form; the message names file and row.
    """
    fields, answer, names, rows = None, None, {}, []
    for where, _, entry in entries(source):
        if fields is None:
            fields = Fields.of(entry, reading.mapping, where, ("label",) if _labelled(entry, reading.mapping) else ())
            answer = reading.answer or (ANSWER if ANSWER in entry else BOXED)
        if taken := next((name for name in added if name in entry), None):
            raise ContractError(f"{where}: there is a field {taken!r} already; decide on the file of `cocal score`")
        question = names.setdefault(_question(fields, entry, where), len(names))
        stated, label, found = confidence(entry, reading.field, where), _label(fields, entry, where), None
        if answers and answer != BOXED:
            found = _stated(entry, answer, where)
        elif answers and (text := fields.text(entry, where)):
            found = extract_answer(text)
        rows.append((where, question, stated, label, found))
    wheres, question, stated, labels, found = zip(*rows, strict=True)
    read = {reading.field, *([answer] if answers else [])}
    unknown = tuple(name for name in fields.unknown if name not in read)
    notes, correct = [f"fields: {replace(fields, unknown=unknown)}"], None
    where_from = f"the field {answer!r}" if answer != BOXED else "the last box of each response"
    if answer == BOXED and not {*fields.taken} & {"response"}:
        where_from = "no field is read as the response"
    if answers:
        notes.append(f"answers: {where_from}")
    if labels[0] is not None:
        correct, note = correctness(np.array(labels), lambda place: wheres[place], reading.correct_above)
        notes.append(f"labels: {note}")
    return Pools(source, [*names], np.array(question), np.array(stated), correct, [*found], where_from, tuple(notes))


def _question(fields: Fields, entry: Mapping[str, Any], where: str) -> str:
    found = fields.question(entry)
    if found is None:
        raise ContractError(
            f"{where}: nothing tells which question was answered; give a question_id or a prompt, or name the field "
            "(--field question_id=FIELD)"
        )
    return found


def _label(fields: Fields, entry: Mapping[str, Any], where: str) -> float | None:
    found = fields.label(entry, where)
    if found is None and {*fields.taken} & {*NEEDED["label"]}:
        raise ContractError(f"{where}: the response has no label, but others have one; add it, or delete the row")
    return found


def _stated(entry: Mapping[str, Any], name: str, where: str) -> str | None:
    found = entry.get(name)
    if found is None or (isinstance(found, str) and not found.strip()):
        return None
    if isinstance(found, bool) or not isinstance(found, (str, int, float)):
        raise ContractError(f"{where}: field {name!r} is {shown(found)}, neither a text nor a number; correct the row")
    return str(found).strip()


def _labelled(entry: Mapping[str, Any], mapping: Mapping[str, str]) -> bool:
    return any(
        mapping.get(meaning) is not None or any(name in entry for name in FIELDS[meaning])
        for meaning in NEEDED["label"]
    )


def classes_of(pools: Pools, domain: Domain) -> np.ndarray:
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


def rules(pools: Pools, classes: np.ndarray | None) -> dict[str, np.ndarray]:
    """The row that each rule chooses for every question, int64 (q,); the votes only where answers were compared."""
    found = {"best-of-n": best_of_n(pools.question, pools.confidence)}
    if classes is not None:
        found["vote"] = vote(pools.question, classes, pools.confidence)
        found["majority"] = vote(pools.question, classes)
    return found | {"first": first(pools.question)}


def vote_shares(pools: Pools, classes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Share of the confidence in all answers to a question that the answer of its chosen response gathers; NaN where
    no response has both an answer and a confidence. float64 (q,)."""
    weights = np.where(classes >= 0, np.nan_to_num(pools.confidence, nan=0.0), 0.0)
    alike = classes == classes[rows][pools.question]
    won, all_of = (np.bincount(pools.question, weights=part) for part in (weights * alike, weights))
    with np.errstate(invalid="ignore"):  # 0 / 0 where nobody has a vote
        return won / all_of


def accuracies(pools: Pools, chosen: Mapping[str, np.ndarray], settings: MetricSettings) -> pd.DataFrame:
    """Accuracy of the responses that rules choose, with intervals of a bootstrap over the questions.

    Returns:
        Columns rule, value, lower and upper.
    """
    right = np.array([pools.correct[rows] for rows in chosen.values()], dtype=np.float64)
    value = right.mean(axis=1)
    drawn = resampled_means(right, settings.resamples, generator_for(settings.seed, "questions"))
    lower, upper = centred_interval(value, drawn, settings.level)
    return pd.DataFrame({"rule": [*chosen], "value": value, "lower": lower, "upper": upper})


def threshold_for(pools: Pools, calibration: Pools, *, max_risk: float, delta: float) -> float | None:
    """The confidence from which on questions are answered (`cocal.metrics.abstention`); None if none is certified.

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


def write_decisions(pools: Pools, rows: np.ndarray, added: Mapping[str, list], target: Path) -> None:
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
