"""Question sets in files of a user: JSON lines, a JSON list or Parquet, with one question per record."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BaseModel, Field, PlainValidator

from cocal.config.data import FileSettings
from cocal.config.study import Study
from cocal.errors import ConfigError, ContractError
from cocal.questions.loaders import Question, accepted_answers, records_of
from cocal.store.rows import entries, reading, shown


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


def _answer(value: Any) -> str | int | float:
    if isinstance(value, str):
        return _not_blank(value)
    number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if isinstance(value, bool) or not number:
        raise ValueError(f"is {shown(value)}, neither a text nor a number")
    return value


Text = Annotated[str, AfterValidator(_not_blank)]
Answer = Annotated[str | int | float, PlainValidator(_answer)]


class _Record(BaseModel):
    """The fields of a record; further fields are ignored. A null value of an optional field counts as missing."""

    question: Text
    answer: Answer
    aliases: tuple[Answer, ...] | None = None
    id: Answer | None = Field(default=None, validation_alias=AliasChoices("question_id", "id"))
    subject: str | None = None
    level: Annotated[int, Field(ge=0)] | None = None


def load_files(sources: Mapping[str, FileSettings]) -> dict[str, list[Question]]:
    """The questions of these files in the order of their records, by data set.

    Raises:
        ConfigError: if a file is missing.
        ContractError: if a file does not have its format or has no questions, or if a record lacks a field, has a wrong
            one or repeats an id; the message names the file, the line or record, and the field.
    """
    return {name: _questions(name, Path(source.path)) for name, source in sources.items()}


def counted(study: Study, root: str | Path = "") -> Study:
    """The study with the number of questions of every file filled in; jobs are planned from it.

    Args:
        study: The study as configured.
        root: Folder at which relative paths start.

    Raises:
        ConfigError: if a file is missing, or has another number of questions than the study says, or fewer
            than its limit.
        ContractError: if a file does not have its format.
    """
    datasets = dict(study.datasets)
    for name, source in study.question_sets.files.items():
        count = len(_records(name, Path(root) / source.path))
        if source.questions not in (None, count):
            raise ConfigError(
                f"datasets.{name}: source.questions = {source.questions}, but {source.path} has {count} records"
            )
        if source.limit is not None and source.limit > count:
            raise ConfigError(
                f"datasets.{name}: source.limit = {source.limit}, but {source.path} has only {count} records"
            )
        full = source.model_copy(update={"questions": count})
        datasets[name] = datasets[name].model_copy(update={"source": full})
    return study.model_copy(update={"datasets": datasets})


def _records(name: str, path: Path) -> dict[str, Any]:
    """The records of a file by their place, counted from 1: "line 3" in JSON lines, where blank lines are skipped, and
    "record 3" otherwise."""
    if not path.is_file():
        raise ConfigError(f"datasets.{name}: source.path = {path}: there is no such file")
    if path.suffix == ".jsonl":
        return {where.rpartition(": ")[2]: entry for where, _, entry in entries(path)}
    records = records_of(path, path.suffix.removeprefix("."))
    return {f"record {number}": record for number, record in enumerate(records, start=1)}


def _questions(name: str, path: Path) -> list[Question]:
    questions: dict[str, Question] = {}
    places: dict[str, str] = {}
    for row, (place, content) in enumerate(_records(name, path).items()):
        question = _question(f"{path}: {place}", row, content)
        if question.id in places:
            raise ContractError(
                f"{path}: {place}: question_id {question.id!r} is also in {places[question.id]}; ids must differ"
            )
        places[question.id], questions[question.id] = place, question
    if not questions:
        raise ContractError(f"{path}: the file holds no questions")
    return list(questions.values())


def _question(where: str, row: int, content: Any) -> Question:
    """The question in the record of index `row`, which is also its id if the record has none."""
    with reading(where):
        record = _Record.model_validate(content)
    answer, *_ = accepted_answers(record.answer)
    aliases = [text for alias in record.aliases or () for text in accepted_answers(alias) if text != answer]
    return Question(
        id=f"{row:05d}" if record.id is None else str(record.id),
        question=record.question.strip(),
        answer=answer,
        aliases=tuple(dict.fromkeys(aliases)),
        subject=record.subject or "",
        level=record.level or 0,
    )
