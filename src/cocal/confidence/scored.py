"""Files of scored responses: how they are read, and decisions among them and while they grow."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
from pydantic import ValidationError

from cocal.answers.equivalence import Verifier
from cocal.answers.extraction import extract_answer
from cocal.answers.judge import ExactMatch
from cocal.answers.settings import VerifierSettings
from cocal.confidence import BY, COURSE, LEARNT, LEARNT_FROM, RESPONSE, TOKENS
from cocal.errors import ContractError
from cocal.fitting.held_out import LEAST_QUESTIONS
from cocal.metrics.bootstrap import centred_interval, generator_for, resampled_means
from cocal.metrics.choices import best_of_n, candidates, certified, first, vote
from cocal.metrics.settings import MetricSettings
from cocal.rollouts.format import Reading
from cocal.rollouts.labels import check_bound, correctness
from cocal.rollouts.lines import FIELDS, NEEDED, Fields
from cocal.rollouts.questions import contradictions, copies, same_question
from cocal.rollouts.sample import Sample, doubtful
from cocal.settings.base import Count, Model, Share
from cocal.store import atomic_path
from cocal.store.rows import entries, extended, listed, normalised, with_fields

_Parsed = TypeVar("_Parsed", bound=Model)
ANSWER, BOXED = "answer", "boxed"
"""Field of the answer, where lines have it; otherwise the answer is the content of the response's last box."""
_UNCERTAIN = "the lines name no question, so each counts as one; intervals are too narrow if questions repeat"


@dataclass(frozen=True)
class Scored:
    """Scored responses in the order of their file.

    Attributes:
        name: Field of the confidence.
        names: What tells each of q questions, in the order in which they first occur.
        known: The question of every text, list of token ids and question id that does not contradict the prompts.
        question: int64 (n,), question of each response, an index into `names`.
        confidence: float64 (n,), NaN where there is none.
        correct: bool (n,), or None where the file has no labels.
        length: float64 (n,), tokens of each response where `cocal score` wrote them (`confidence_response`), or else
            its characters; None where the file has neither of all that have a confidence.
        cut, tokens: bool (n,) and float64 (n, 3), as it wrote them; None where it knew them not of all of these.
        others: float64 (n,) each, further confidences by their fields, NaN where there is none.
        answers: Answer of each response; None for a response without one.
        learnt: Number of responses to prompts that the companion has learnt from.
        companions: What the lines say of the companions that gave the confidences.
        without_answers: Why no response has an answer, and the remedy; None if one has.
        notes: What was read for what.
    """

    source: Path
    name: str
    names: list[str]
    known: Mapping[str, int]
    question: np.ndarray
    confidence: np.ndarray
    correct: np.ndarray | Any
    length: np.ndarray | None
    cut: np.ndarray | None
    tokens: np.ndarray | None
    others: Mapping[str, np.ndarray]
    answers: list[str | None]
    learnt: int
    companions: frozenset[str]
    without_answers: str | None
    notes: tuple[str, ...]

    @property
    def largest(self) -> int:
        """The largest number of responses to a question."""
        return int(np.bincount(self.question).max())

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
    """Read the responses of a file of JSON lines, as `cocal score` writes them, in any order. A ContractError names
    file and row of a line that lacks what it needs or a label that others have, or whose value has the wrong form.

    Args:
        source: The file.
        reading: Names of its fields, and the bound of rewards.
        needs: What every line must have: `label`, `question`. Lines that name no question count as one each.
        added: Fields that somebody adds later, which the lines must not have yet.
        name, others: Field of the confidence, and of further ones; null means that there is no valid one.
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
        told = entry.get(name + LEARNT_FROM) is True, entry.get(name + BY)
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
    notes += [*said, *[f"{sum(learnt):,} of {len(learnt):,} prompts are {LEARNT}"] * any(learnt)]
    companions = sorted({*map(str, filter(None, by))})
    notes += [f"confidences: by the companion {listed(companions)}"] * bool(companions)
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
        learnt=sum(learnt),
        companions=frozenset(companions),
        without_answers=unanswered,
        notes=tuple(notes),
    )


def _questions(asked: Sequence[tuple[str | None, str | None, str | None]]) -> tuple[np.ndarray, list, list[str]]:
    """The question of each row by its text, ids and question id, what names it, and sentences about these."""
    question = same_question(*zip(*asked, strict=True))
    said = contradictions(question, [stated for _, _, stated in asked])
    titles = [(text, ids, None if said else stated) for text, ids, stated in asked]
    return question, titles, [*([] if all(map(any, asked)) else [_UNCERTAIN]), *said]


def _check_labels(lacking: Sequence[str], rows: int) -> None:
    if lacking:
        count = f"{len(lacking):,} of {rows:,} responses have no label"
        raise ContractError(f"{lacking[0]}: {count}; give `correct` or a reward, or delete these rows")


class _Response(Model):
    """What `cocal score` writes of a response beside its confidence."""

    tokens: Count | None = None
    cut: bool | None = None
    token_probability: float | None = None
    mean_logprob: float | None = None
    lowest_logprob: float | None = None


def _parsed(kind: type[_Parsed], value: Any, where: str, name: str) -> _Parsed:
    """The value of a field of `cocal score`; a ContractError says that it has another form."""
    try:
        return kind.model_validate(value, strict=True)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise ContractError(f"{where}: field {name!r} is not as `cocal score` writes it ({reason})") from None


def _told(entry: Mapping[str, Any], fields: Fields, where: str, name: str) -> tuple[str | None, _Response]:
    """The text of a line's response, also of one in parts, if it has one; and what `cocal score` wrote of it."""
    text, told = entry.get(fields.taken.get("response", "")), entry.get(name)
    text = fields.part(entry, where, "response").response if isinstance(text, list) else text
    told = _parsed(_Response, told if isinstance(told, Mapping) else {}, where, name)
    return text if isinstance(text, str) else None, told


def _columns(beside: Sequence[tuple[str | None, _Response]], absent: np.ndarray) -> dict[str, np.ndarray | None]:
    """Length, cuts and tokens (see `Scored`) of responses, of which these texts and this are known; where there is no
    confidence, bool (n,), they are NaN, and False of cuts."""
    texts = [[None if text is None else len(text)] for text, _ in beside]
    told = [[getattr(response, name) for name in ("tokens", "cut", *TOKENS)] for _, response in beside]
    table = np.concatenate([np.array(texts, dtype=np.float64), np.array(told, dtype=np.float64)], axis=1)
    known = [bool(np.isfinite(column[~absent]).all()) for column in table.T]
    length = next((table[:, place] for place in (1, 0) if known[place]), None)
    cut = np.nan_to_num(table[:, 2]).astype(bool) if known[2] else None
    return {"length": length, "cut": cut, "tokens": table[:, 3:] if all(known[3:]) else None}


def _named(numbers: list[int], titles: list, lines: list[str]) -> tuple[list[str], dict[str, int]]:
    """What tells each question, and the question of all that names one (see `Scored`)."""
    names, known = {}, {}
    for number, (text, ids, title), line in zip(numbers, titles, lines, strict=True):
        names.setdefault(number, title or text or ids or line)
        known |= {normalised(key): number for key in (text, ids, title) if key}
    return [*names.values()], known


def classes_of(pools: Scored, domain: Literal["mathematics", "factual"]) -> np.ndarray:
    """Class of each answer within its question, int64 (n,), -1 without an answer, as self-consistency has them.

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
    """The row that each rule chooses for every question, int64 (q,); the votes only where answers were compared."""
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
    """The confidence from which on questions are answered (`certified`); None if none is certified.

    The most confident response to each question is the one that would be given, in both files: `pools` holds responses
    to the questions to decide, `calibration` labelled ones to other questions from the same source. A ContractError
    refuses a calibration without labels, with a question of the other file, or with pools of another size.
    """
    _check_calibration(pools, calibration)
    if calibration.largest != pools.largest:
        raise ContractError(
            f"{calibration.source}: up to {calibration.largest} responses to a question, but up to {pools.largest} in "
            f"{pools.source}; the most confident of another number of responses is no guide: give as many in both"
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
    if calibration.learnt and not pools.learnt:
        raise ContractError(
            f"{calibration.source}: {calibration.learnt:,} of its {len(calibration.question):,} prompts are {LEARNT}; "
            "a threshold holds for questions like those that certify it: leave these lines out"
        )
    if both := {number for key, number in calibration.known.items() if key in pools.known}:
        key = calibration.names[min(both)]
        raise ContractError(
            f"{calibration.source}: {len(both):,} of its questions are also in {pools.source}, such as {key[:60]!r}; a "
            "threshold holds for other questions than those that certify it: take them out of one of the files"
        )


class _Course(Model):
    """The course of a confidence, as `cocal score --every` writes it."""

    every: Count
    tokens: Count
    values: list[Share]


@dataclass(frozen=True)
class Courses:
    """Scored responses with the courses of their confidences.

    Attributes:
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
        places = (np.flatnonzero(course < below) for course in self.values)
        return np.array([self.every * (1 + hits[0]) if len(hits) else 0 for hits in places])

    def lowest(self) -> np.ndarray:
        """The lowest confidence of the first response to each question, float64 (q,); NaN where none is below 1."""
        lowest = np.array([self.values[row].min(initial=1.0) for row in first(self.scored.question)])
        return np.where(lowest < 1, lowest, np.nan)


def read_courses(source: Path, reading: Reading, added: Sequence[str] = (), name: str = "confidence") -> Courses:
    """Read confidences with their courses (`read_scored`). A ContractError names file and row of a line without a
    course, or with one of another form or with another number of tokens between confidences."""
    scored = read_scored(source, reading, ("question",), added, name=name)
    courses, name = [], name + COURSE
    for where, _, entry in entries(source):
        if name not in entry:
            raise ContractError(f"{where}: there is no field {name!r}; add it by `cocal score --every 16`")
        courses.append(_parsed(_Course, entry[name], where, name))
        if courses[-1].every * len(courses[-1].values) > courses[-1].tokens:
            raise ContractError(
                f"{where}: field {name!r} is no course of `cocal score --every`: it outlasts its tokens"
            )
        if courses[-1].every != courses[0].every:
            raise ContractError(
                f"{where}: the confidences are those after every {courses[-1].every} tokens, but after every "
                f"{courses[0].every} above; score all lines with the same --every"
            )
    tokens = np.array([course.tokens for course in courses])
    return Courses(scored, courses[0].every, tokens, [np.array(course.values, dtype=np.float64) for course in courses])


def threshold_to_stop(new: Courses, old: Courses, *, max_risk: float, delta: float) -> float | None:
    """The confidence below which growing responses are stopped, certified as that of abstention is (`threshold_for`):
    thresholds that stop more and more are tested; None if none is certified.

    The first response to each question is the one that is looked at. With a probability of at most `delta` the share of
    right ones among the stopped responses is above `max_risk`. A ContractError refuses a calibration without labels,
    with a question of the other file, or with another number of tokens between confidences.
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
    `added` has a value for each question by the name of the field."""
    asked = dict(zip(rows.tolist(), range(len(rows)), strict=True))
    with atomic_path(target) as partial, partial.open("w", encoding="utf-8", newline="\n") as output:
        for row, (_, text, _) in enumerate(entries(pools.source)):
            if row in asked:
                output.write(extended(text, {name: values[asked[row]] for name, values in added.items()}))
