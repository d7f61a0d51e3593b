"""Reading of files of scored responses."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import ValidationError

from cocal.answers.extraction import extract_answer
from cocal.confidence import BY, LEARNT, LEARNT_FROM, RESPONSE, TOKENS, UNKNOWN
from cocal.errors import ContractError
from cocal.rollouts.format import Reading
from cocal.rollouts.labels import check_bound, correctness
from cocal.rollouts.lines import FIELDS, NEEDED, Fields
from cocal.rollouts.questions import contradictions, copies, same_question
from cocal.rollouts.sample import Sample, doubtful
from cocal.settings.base import Count, Model
from cocal.store.rows import entries, listed, normalised, with_fields

_Parsed = TypeVar("_Parsed", bound=Model)
ANSWER, BOXED = "answer", "boxed"
"""Field of the answer, where lines have it; otherwise the answer is the content of the response's last box."""
_UNCERTAIN = "the lines name no question, so each counts as one; intervals are too narrow if questions repeat"


@dataclass(frozen=True)
class Scored:
    """Scored responses in the order of their file."""

    source: Path
    name: str
    """Field of the confidence."""
    names: list[str]
    """A name for each of q questions, in the order in which they first occur."""
    known: Mapping[str, int]
    """The question of each prompt text, list of token ids, and question id that does not contradict the prompts."""
    question: np.ndarray
    """int64 (n,), question of each response, an index into `names`."""
    confidence: np.ndarray
    """float64 (n,), NaN where there is none."""
    correct: np.ndarray | Any
    """bool (n,), or None where the file has no labels."""
    length: np.ndarray | None
    """float64 (n,), tokens of each response where `cocal score` wrote them (`confidence_response`), or else its
    characters; None if neither is known for every response that has a confidence."""
    truncated: np.ndarray | None
    """bool (n,), whether it was truncated, as `cocal score` wrote it; None unless known for every such response."""
    tokens: np.ndarray | None
    """float64 (n, 3), `TOKENS` as `cocal score` wrote them; None unless known for every such response."""
    others: Mapping[str, np.ndarray]
    """float64 (n,) each, further confidences by their fields, NaN where there is none."""
    answers: list[str | None]
    """Answer of each response; None for a response without one."""
    learnt: int
    """Number of responses to prompts that the companion has learnt from."""
    companions: frozenset[str]
    """The companions that gave the confidences, as the lines name them."""
    without_answers: str | None
    """Why no response has an answer, and the remedy; None if one has."""
    notes: tuple[str, ...]
    """Sentences about how the fields were read."""

    @property
    def sizes(self) -> np.ndarray:
        """The number of responses to each question, int64 (q,)."""
        return np.bincount(self.question)

    @property
    def as_read(self) -> str:
        """What was read, in lines for the terminal."""
        counts = f"{self.source}: {len(self.question):,} responses to {len(self.names):,} questions"
        return "\n  ".join([counts, *self.notes])


def read_scored(
    source: Path,
    reading: Reading,
    needs: Sequence[str] = (),
    added: Sequence[str] = (),
    *,
    name: str = "confidence",
    others: Sequence[str] = (),
    answers: bool = False,
    answer: str | None = None,
) -> Scored:
    """Read the responses of a file of JSON lines, as `cocal score` writes them, in any order. Raises a ContractError
    that names file and row if a line lacks a needed field or a label that others have, or a value has the wrong form.

    Args:
        source: The file.
        reading: Names of its fields, and the bound of rewards.
        needs: Which of `label` and `question` every line must have. Lines that name no question count as one each.
        added: Fields that will be added later, which the lines must not have yet.
        name, others: Field of the confidence, and those of further ones; null means that there is no valid one.
        answers: Whether answers are read; otherwise no response has one.
        answer: Field of the answer, or `BOXED`; by default `ANSWER`, or `BOXED` where there is no such field.
    """
    fields: Fields
    wheres, questions, beside, rows, unlabelled = [], [], [], [], []
    first, lines = with_fields(entries(source), 2)
    for where, line, entry in lines:
        if not wheres:
            names = [*reading.fields, *(meaning for meaning in NEEDED["label"] if {*FIELDS[meaning]} & {*first})]
            labelled = "label" in needs or bool({*NEEDED["label"]} & {*names})
            answer = answer or (ANSWER if ANSWER in first else BOXED)
            named = {"answer": answer} if answers and answer != BOXED else {}
            fields = Fields.of(first, reading.fields, where, ["label"] * labelled, confidence=name, **named)
            read = [*NEEDED["label"], "confidence", *named]
        if taken := [new for new in added if new in entry]:
            raise ContractError(f"{where}: there is a field {taken[0]!r} already; decide on the file of `cocal score`")
        question = fields.asked(entry)
        if not any(question) and "question" in needs:
            raise ContractError(
                f"{where}: nothing tells which question was answered; give a question_id or a prompt, or name the "
                "field (--field question_id=FIELD)"
            )
        if missing := [field for field in (name, *others) if field not in entry]:
            flag = "--name" if missing[0] == name else "--beside"
            raise ContractError(
                f"{where}: there is no field {missing[0]!r}; add it by `cocal score`, or name another ({flag})"
            )
        sample = fields.part(entry, where, *read)
        if labelled and sample.label is None:
            unlabelled.append(where)
        check_bound(sample, reading.correct_above)
        wheres.append(where)
        questions.append(question)
        beside.append(_told(entry, fields, where, name + RESPONSE))
        given = sample.answer if named else extract_answer(beside[-1][0] or "") if answers else None
        more = [Sample.read(where, {"confidence": field}, confidence=entry[field]).confidence for field in others]
        told = entry.get(name + LEARNT_FROM, False), entry.get(name + BY)
        rows.append(([sample.confidence, *more], sample.label, given, *told, sample.doubt, hash(line)))
    _check_labels(unlabelled, len(rows))
    confidences, labels, given_answers, learnt, by, doubts, whole = zip(*rows, strict=True)
    unread = tuple(field for field in fields.unknown if not field.startswith(f"{name}_") and field not in others)
    notes, correct, unanswered = [f"fields: {replace(fields, unknown=unread)}"], None, None
    boxed = "the last box of each response" if "response" in fields.taken else "no field is read as the response"
    from_where = boxed if answer == BOXED else f"the field {answer!r}"
    notes += [f"answers: {from_where}"] * answers
    if all(text is None for text in given_answers):
        unanswered = (
            f"no response has an answer ({from_where}): name the field of the response that ends in \\boxed{{...}} "
            "(--field response=FIELD), or that of the answer itself (--answer FIELD)"
        )
    if labelled:
        correct, note = correctness(np.array(labels), lambda place: wheres[place], reading.correct_above)
        notes += [f"labels: {note}", *doubtful(Counter(filter(None, doubts)), len(rows))]
    question, titles, said = _questions(questions)
    notes += [*said, *[f"{learnt.count(True):,} of {len(learnt):,} prompts are {LEARNT}"] * (True in learnt)]
    companions = sorted({*map(str, filter(None, by))})
    notes += [f"confidences: by the companion {listed(companions)}"] * bool(companions) + [UNKNOWN] * (None in learnt)
    copies(whole, wheres.__getitem__, "the whole line")  # a few may well be equal responses
    confidence, *more = np.array(confidences, dtype=np.float64).T
    absent = np.isnan(confidence)
    notes += [f"confidences: {absent.sum():,} of {len(confidence):,} are null"] * bool(absent.any())
    return Scored(
        source,
        name,
        *_named(question.tolist(), titles, [where.removeprefix(f"{source}: ") for where in wheres]),
        question,
        confidence,
        correct,
        **_columns(beside, absent),
        others=dict(zip(others, more, strict=True)),
        answers=[*given_answers],
        learnt=learnt.count(True),
        companions=frozenset(companions),
        without_answers=unanswered,
        notes=tuple(notes),
    )


def _questions(asked: Sequence[tuple[str | None, str | None, str | None]]) -> tuple[np.ndarray, list, list[str]]:
    """The question of each row, from its text, ids and question id; what names it; and sentences about these."""
    question = same_question(*zip(*asked, strict=True))
    said = contradictions(question, [stated for _, _, stated in asked])
    titles = [(text, ids, None if said else stated) for text, ids, stated in asked]
    return question, titles, [*([] if all(map(any, asked)) else [_UNCERTAIN]), *said]


def _check_labels(lacking: Sequence[str], rows: int) -> None:
    if lacking:
        count = f"{len(lacking):,} of {rows:,} responses have no label"
        raise ContractError(f"{lacking[0]}: {count}; give `correct` or a reward, or delete these rows")


class _Response(Model):
    """What `cocal score` writes about a response beside its confidence."""

    tokens: Count | None = None
    truncated: bool | None = None
    token_probability: float | None = None
    mean_logprob: float | None = None
    lowest_logprob: float | None = None


def parsed(kind: type[_Parsed], value: Any, where: str, name: str) -> _Parsed:
    """Validate the value of a field that `cocal score` wrote. Raises a ContractError if it has another form."""
    try:
        return kind.model_validate(value, strict=True)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise ContractError(f"{where}: field {name!r} is not as `cocal score` writes it ({reason})") from None


def _told(entry: Mapping[str, Any], fields: Fields, where: str, name: str) -> tuple[str | None, _Response]:
    """The text of a line's response, joined if it is in parts, or None; and what `cocal score` wrote about it."""
    text, told = entry.get(fields.taken.get("response", "")), entry.get(name)
    text = fields.part(entry, where, "response").response if isinstance(text, list) else text
    told = parsed(_Response, told if isinstance(told, Mapping) else {}, where, name)
    return text if isinstance(text, str) else None, told


def _columns(beside: Sequence[tuple[str | None, _Response]], absent: np.ndarray) -> dict[str, np.ndarray | None]:
    """The columns length, truncated and tokens (see `Scored`), from each response's text and what `cocal score` wrote.
    A column is None unless it is known wherever there is a confidence; rows that are `absent`, bool (n,), may hold NaN,
    or False for truncated."""
    texts = [[None if text is None else len(text)] for text, _ in beside]
    told = [[getattr(response, name) for name in ("tokens", "truncated", *TOKENS)] for _, response in beside]
    table = np.concatenate([np.array(texts, dtype=np.float64), np.array(told, dtype=np.float64)], axis=1)
    known = [bool(np.isfinite(column[~absent]).all()) for column in table.T]
    length = next((table[:, place] for place in (1, 0) if known[place]), None)
    truncated = np.nan_to_num(table[:, 2]).astype(bool) if known[2] else None
    return {"length": length, "truncated": truncated, "tokens": table[:, 3:] if all(known[3:]) else None}


def _named(numbers: list[int], titles: list, lines: list[str]) -> tuple[list[str], dict[str, int]]:
    """A name for each question, and the question of every text, id list and question id (see `Scored`)."""
    names, known = {}, {}
    for number, (text, ids, title), line in zip(numbers, titles, lines, strict=True):
        names.setdefault(number, title or text or ids or line)
        known |= {normalised(key): number for key in (text, ids, title) if key}
    return [*names.values()], known
