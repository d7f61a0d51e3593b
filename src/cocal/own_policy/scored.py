"""Reading of scored responses, for reports about them and for decisions among them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cocal.answers.extraction import extract_answer
from cocal.errors import ContractError
from cocal.integrations.lines import FIELDS, NEEDED, Fields
from cocal.own_policy.experience import NO_LABEL, correctness
from cocal.store.rows import entries

ANSWER, BOXED = "answer", "boxed"
"""Field of the answer, where lines have it; otherwise the answer is the content of the response's last box."""


@dataclass(frozen=True)
class Reading:
    """The fields that are read of a file of scored responses, and under which names.

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
class Scored:
    """Scored responses in the order of their file.

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


def read_scored(
    source: Path, reading: Reading, needs: Sequence[str] = (), added: Sequence[str] = (), *, answers: bool = False
) -> Scored:
    """Read the responses of a file.

    Args:
        source: JSON lines, as `cocal score` writes them; the responses to a question need not stand together.
        reading: Names of the fields.
        needs: What every line must have: `label`, `question`. Lines that name no question count as one each.
        added: Fields that somebody adds later, which the lines must not have yet.
        answers: Whether answers are read; otherwise no response has one.

    Raises:
        ContractError: if a line lacks what it needs, its confidence is not from 0 to 1, it lacks a label that others
            have, or a field has the wrong form; the message names file and row.
    """
    fields, wheres, questions, rows = None, [], [], []
    for where, _, entry in entries(source):
        if fields is None:
            labelled = "label" in needs or _labelled(entry, reading.mapping)
            answer = reading.answer or (ANSWER if ANSWER in entry else BOXED)
            named = {"answer": answer} if answers and answer != BOXED else {}
            fields = Fields.of(entry, reading.mapping, where, ["label"] * labelled, confidence=reading.field, **named)
            read = [*NEEDED["label"], "confidence", *named, *(["response"] if answers and not named else [])]
        if taken := [name for name in added if name in entry]:
            raise ContractError(f"{where}: there is a field {taken[0]!r} already; decide on the file of `cocal score`")
        question = fields.question(entry)
        if question is None and "question" in needs:
            raise ContractError(
                f"{where}: nothing tells which question was answered; give a question_id or a prompt, or name the "
                "field (--field question_id=FIELD)"
            )
        if reading.field not in entry:
            raise ContractError(
                f"{where}: there is no field {reading.field!r}; add it by `cocal score`, or name another (--name)"
            )
        found = fields.part(entry, where, *read)
        if labelled and found.label is None:
            raise ContractError(f"{where}: {NO_LABEL}")
        wheres.append(where)
        questions.append(question)
        rows.append((found.confidence, found.label, found.answer if named else extract_answer(found.response or "")))
    confidence, labels, stated = zip(*rows, strict=True)
    notes, correct = [f"fields: {fields}"], None
    from_where = f"the field {answer!r}" if answer != BOXED else "the last box of each response"
    if answer == BOXED and "response" not in fields.taken:
        from_where = "no field is read as the response"
    if answers:
        notes.append(f"answers: {from_where}")
    if labelled:
        correct, note = correctness(np.array(labels), lambda place: wheres[place], reading.correct_above)
        notes.append(f"labels: {note}")
    if None in questions:
        notes.append("the lines name no question, so each counts as one; intervals are too narrow if questions repeat")
        questions = [where.removeprefix(f"{source}: ") for where in wheres]
    places = {name: place for place, name in enumerate(dict.fromkeys(questions))}
    return Scored(
        source,
        [*places],
        np.array([places[name] for name in questions]),
        np.array(confidence, dtype=np.float64),
        correct,
        [*stated],
        from_where,
        tuple(notes),
    )


def _labelled(entry: Mapping[str, object], mapping: Mapping[str, str]) -> bool:
    return any(meaning in mapping or {*FIELDS[meaning]} & {*entry} for meaning in NEEDED["label"])
