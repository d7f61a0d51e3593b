"""Question sets in files of a user: JSON lines, a JSON list or Parquet, with one question per record."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BaseModel, Field, StrictFloat, StrictInt, ValidationError

from cocal.config.data import FileSettings
from cocal.config.study import Study
from cocal.errors import ConfigError, ContractError
from cocal.questions.loaders import READERS, Question, accepted_answers


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


Text = Annotated[str, AfterValidator(_not_blank)]
Answer = Text | StrictInt | StrictFloat


class _Record(BaseModel):
    """The fields of a record; further fields are ignored. A null value of an optional field counts as missing."""

    question: Text
    answer: Answer
    aliases: tuple[Answer, ...] | None = None
    id: Text | StrictInt | None = Field(default=None, validation_alias=AliasChoices("question_id", "id"))
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
    try:
        if path.suffix == ".jsonl":
            lines = enumerate(path.read_text(encoding="utf-8").split("\n"), start=1)
            return {f"line {number}": _parsed(path, number, line) for number, line in lines if line.strip()}
        records = READERS[path.suffix.removeprefix(".")](path.read_bytes())
    except FileNotFoundError:
        raise ConfigError(f"datasets.{name}: source.path = {path}: there is no such file") from None
    except ContractError:
        raise
    except (ValueError, OSError) as error:  # undecodable text, broken JSON and Arrow's errors are ValueErrors
        raise ContractError(f"{path}: not readable as {path.suffix.removeprefix('.')}: {error}") from None
    return {f"record {number}": record for number, record in enumerate(records, start=1)}


def _parsed(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ContractError(f"{path}, line {number}: not valid JSON: {error}") from None


def _questions(name: str, path: Path) -> list[Question]:
    questions: dict[str, Question] = {}
    places: dict[str, str] = {}
    for row, (place, content) in enumerate(_records(name, path).items()):
        question = _question(f"{path}, {place}", row, content)
        if question.id in places:
            raise ContractError(
                f"{path}, {place}: question_id {question.id!r} is also in {places[question.id]}; ids must differ"
            )
        places[question.id], questions[question.id] = place, question
    if not questions:
        raise ContractError(f"{path}: the file holds no questions")
    return list(questions.values())


def _question(where: str, row: int, content: Any) -> Question:
    """The question in the record of index `row`, which is also its id if the record has none."""
    try:
        record = _Record.model_validate(content)
    except ValidationError as error:
        problem = error.errors()[0]
        field = problem["loc"][0] if problem["loc"] else "(the whole record)"
        raise ContractError(f"{where}: field {str(field)!r}: {problem['msg'].removeprefix('Value error, ')}") from None
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
