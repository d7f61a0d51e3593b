"""Given question sets: registered sets from their sources, and files of a user in JSON lines, JSON or Parquet."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BaseModel, Field, PlainValidator
from pydantic_core import from_json

from cocal.answers.spelling import canonical_integer
from cocal.errors import ConfigError, ContractError
from cocal.store.rows import entries, reading, shown
from cocal_study.config.data import FileSettings, RegisteredSettings
from cocal_study.config.study import Study
from cocal_study.questions.registry import Correction, Entry, Registry
from cocal_study.questions.sources import stored


@dataclass(frozen=True)
class Question:
    """One question of a given set. `aliases` are further accepted answers; `level` is 0 if it is unknown."""

    id: str
    question: str
    answer: str
    aliases: tuple[str, ...] = ()
    subject: str = ""
    level: int = 0


def load_registered(
    sources: Mapping[str, RegisteredSettings], registry: Registry, cache: str | Path
) -> dict[str, list[Question]]:
    """The questions of the registered sets of a study, by data set, from verified files in the cache; it raises what
    `Registry.slice`, `load` and `stored` raise."""
    loaded = {}
    for dataset, source in sources.items():
        entry = registry.slice([source.name]).sets[source.name]
        files = [stored(entry.source, file, cache) for file in entry.source.files]
        loaded[dataset] = load(source.name, entry, files, source.corrections)
    return loaded


def load(name: str, entry: Entry, files: Sequence[Path], corrections: bool = False) -> list[Question]:
    """The questions of a registered set, in the order of its verified source files. Rows that are known to be wrong are
    corrected if `corrections` is true. Raises ContractError if a file does not have its format, a record lacks a field,
    a correction does not fit, or the registry gives another number of records or questions."""
    records = [record for file in files for record in records_of(file, entry.loader)]
    if len(records) != entry.rows:
        raise ContractError(f"{name}: the source has {len(records)} records, the registry expects {entry.rows}")
    questions = list(_registered(name, entry, records))
    if corrections:
        questions = _corrected(name, questions, entry.corrections)
    if entry.merge:
        questions = _merged(questions)
    if entry.questions not in (None, len(questions)):
        raise ContractError(f"{name}: {len(questions)} questions remain, the registry expects {entry.questions}")
    return questions


def records_of(file: Path, loader: str) -> list[Any]:
    """The records of a file: of JSON lines ("jsonl", without blank ones), a JSON list ("json") or Parquet
    ("parquet"). Raises ContractError if the file does not have its format."""
    try:
        if loader == "jsonl":
            return [entry for _, _, entry in entries(file)]
        if loader == "parquet":
            from cocal.store.parquet import batches  # loads pyarrow

            return [row for batch in batches(file) for row in batch.to_pylist()]
        records = from_json(file.read_bytes())
        if not isinstance(records, list):
            raise ValueError("expected a list of records")
        return records
    except ContractError:
        raise
    except (ValueError, OSError) as error:  # undecodable text, broken JSON and Arrow's errors are ValueErrors
        raise ContractError(f"{file}: not readable as {loader}: {error}") from None


def _registered(name: str, entry: Entry, records: Iterable[Any]) -> Iterator[Question]:
    """The questions in the records; records without an answer are left out."""
    fields = entry.fields
    for row, record in enumerate(records):
        where = f"{name}, record {row}"
        value = partial(_value, where, record)
        answers = accepted_answers(value(fields.answer))
        if not answers:
            continue
        text = value(fields.question)
        if not isinstance(text, str) or not text.strip():
            raise ContractError(f"{where}: field {fields.question!r} holds no text")
        if not text.endswith(entry.suffix):
            raise ContractError(f"{where}: the question does not end with {entry.suffix!r}")
        main = answers[-1 if entry.main_answer == "last" else 0]
        distinct = dict.fromkeys(answers)
        yield Question(
            id="-".join(str(value(field)) for field in fields.id) or f"{row:05d}",
            question=text.removesuffix(entry.suffix).strip(),
            answer=main,
            aliases=tuple(answer for answer in distinct if answer != main),
            subject=str(value(fields.subject)) if fields.subject else "",
            level=int(value(fields.level)) if fields.level else 0,
        )


def _value(where: str, record: Any, field: str) -> Any:
    value = record
    for step in field.split("."):
        try:
            value = value[int(step) if isinstance(value, list) else step]
        except (KeyError, IndexError, TypeError, ValueError):
            raise ContractError(f"{where}: no field {field!r}") from None
    return value


def accepted_answers(value: Any) -> list[str]:
    """The accepted answers in a value or a list, without blank ones. A single 27.0 becomes 27, and 025 becomes 25."""
    if isinstance(value, list):
        return [text for item in value if (text := str(item).strip())]
    if value is None:
        return []
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value).strip()
    return [canonical_integer(text) or text] if text else []


def _corrected(name: str, questions: list[Question], corrections: Sequence[Correction]) -> list[Question]:
    places = {question.id: place for place, question in enumerate(questions)}
    mended = list(questions)
    for correction in corrections:
        if correction.id not in places:
            raise ContractError(f"{name}: the registry corrects row {correction.id!r}, which the source does not have")
        place = places[correction.id]
        value = getattr(questions[place], correction.field)
        if value != correction.old:
            raise ContractError(
                f"{name}, row {correction.id}: the registry corrects the {correction.field} {correction.old!r}, "
                f"but the source has {value!r}"
            )
        mended[place] = replace(mended[place], **{correction.field: correction.new})
    return mended


def _merged(questions: Iterable[Question]) -> list[Question]:
    """One question for each text, at its first position. Different answers become aliases, because the source does not
    say which of them is right."""
    first: dict[str, Question] = {}
    for question in questions:
        known = first.setdefault(question.question, question)
        answers = dict.fromkeys([known.answer, *known.aliases, question.answer, *question.aliases])
        first[question.question] = replace(known, aliases=tuple(answers)[1:])
    return list(first.values())


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
    """The fields of a record. Others are ignored; in optional fields null means missing."""

    question: Text
    answer: Answer
    aliases: tuple[Answer, ...] | None = None
    id: Answer | None = Field(default=None, validation_alias=AliasChoices("question_id", "id"))
    subject: str | None = None
    level: Annotated[int, Field(ge=0)] | None = None


def load_files(sources: Mapping[str, FileSettings]) -> dict[str, list[Question]]:
    """The questions of these files in the order of their records, by data set. Raises ConfigError if a file is missing,
    and ContractError if a file does not have its format or has no questions, or if a record lacks a field, has a wrong
    one or repeats an id; the message names the file, the line or record, and the field."""
    return {name: _questions(name, Path(source.path)) for name, source in sources.items()}


def counted(study: Study, root: str | Path = "") -> Study:
    """The study with the number of questions of every file, below `root`, filled in; jobs are planned from it. Raises
    ConfigError if a file is missing, or has another number of questions than the study says, or fewer than its limit,
    and ContractError if a file does not have its format."""
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
        with reading(f"{path}: {place}"):
            record = _Record.model_validate(content)
        key = f"{row:05d}" if record.id is None else str(record.id)
        if key in places:
            raise ContractError(f"{path}: {place}: question_id {key!r} is also in {places[key]}; ids must differ")
        answer, *_ = accepted_answers(record.answer)
        aliases = [text for alias in record.aliases or () for text in accepted_answers(alias) if text != answer]
        places[key] = place
        questions[key] = Question(
            id=key,
            question=record.question.strip(),
            answer=answer,
            aliases=tuple(dict.fromkeys(aliases)),
            subject=record.subject or "",
            level=record.level or 0,
        )
    if not questions:
        raise ContractError(f"{path}: the file holds no questions")
    return list(questions.values())
