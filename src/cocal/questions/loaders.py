"""Readers of the file formats of question sets, and conversion of their records to questions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from cocal.answers.normalise import canonical_integer
from cocal.config.data import RegisteredSettings
from cocal.errors import ContractError
from cocal.questions.registry import Correction, Entry, Registry
from cocal.questions.sources import stored
from cocal.store.rows import entries


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
    """The questions of the registered sets of a study, by data set, from verified files in the cache.

    Raises:
        ConfigError: if a set is not registered.
        ContractError: in the cases of `load` and `stored`.
    """
    loaded = {}
    for dataset, source in sources.items():
        entry = registry.slice([source.name]).sets[source.name]
        files = [stored(entry.source, file, cache) for file in entry.source.files]
        loaded[dataset] = load(source.name, entry, files, source.corrections)
    return loaded


def load(name: str, entry: Entry, files: Sequence[Path], corrections: bool = False) -> list[Question]:
    """The questions of a registered set, in the order of its source.

    Args:
        name: Name of the set, for errors.
        entry: Entry of the set in the registry.
        files: Verified source files in the order of the entry.
        corrections: Whether rows that are known to be wrong are corrected.

    Raises:
        ContractError: if a file does not have its format, a record lacks a field, a correction does not fit, or the
            registry gives another number of records or questions.
    """
    records = [record for file in files for record in records_of(file, entry.loader)]
    if len(records) != entry.rows:
        raise ContractError(f"{name}: the source has {len(records)} records, the registry expects {entry.rows}")
    questions = list(_questions(name, entry, records))
    if corrections:
        questions = _corrected(name, questions, entry.corrections)
    if entry.merge:
        questions = _merged(questions)
    if entry.questions not in (None, len(questions)):
        raise ContractError(f"{name}: {len(questions)} questions remain, the registry expects {entry.questions}")
    return questions


def records_of(file: Path, loader: str) -> list[Any]:
    """The records of a file: of JSON lines ("jsonl", without blank ones), a JSON list ("json") or Parquet ("parquet").

    Raises:
        ContractError: if the file does not have its format.
    """
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


def _questions(name: str, entry: Entry, records: Iterable[Any]) -> Iterator[Question]:
    """The questions in the records; records without an answer are left out."""
    fields = entry.fields
    for row, record in enumerate(records):

        def value(field: str, row: int = row, record: Any = record) -> Any:
            return _value(record, field, f"{name}, record {row}")

        answers = accepted_answers(value(fields.answer))
        if not answers:
            continue
        text = value(fields.question)
        if not isinstance(text, str) or not text.strip():
            raise ContractError(f"{name}, record {row}: field {fields.question!r} holds no text")
        if not text.endswith(entry.suffix):
            raise ContractError(f"{name}, record {row}: the question does not end with {entry.suffix!r}")
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


def _value(record: Any, field: str, where: str) -> Any:
    """The value of a field such as `a.0.b` in a record."""
    found = record
    for step in field.split("."):
        try:
            found = found[int(step) if isinstance(found, list) else step]
        except (KeyError, IndexError, TypeError, ValueError):
            raise ContractError(f"{where}: no field {field!r}") from None
    return found


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
        found = getattr(questions[place], correction.field)
        if found != correction.old:
            raise ContractError(
                f"{name}, row {correction.id}: the registry corrects the {correction.field} {correction.old!r}, "
                f"but the source has {found!r}"
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
