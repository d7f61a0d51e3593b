"""Files that come from elsewhere: their numbers, JSON lines, and the error messages about rows that cannot be read."""

import codecs
import json
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from cocal.errors import ContractError
from cocal.store.damage import regular

_SHOWN_NAMES, _FIRST = 20, 16


def entries(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The lines of a file that are not empty: file and line for error messages, the text, and what it holds. Raises a
    ContractError if the file is missing or holds no line, or a line is not a JSON object."""
    some = False
    with regular(path, "JSON lines").open("rb") as lines:
        for place, line in enumerate(lines, 1):
            where = f"{path}: line {place}"
            content = line.removeprefix(codecs.BOM_UTF8).strip() if place == 1 else line.strip()
            if content:
                some = True
                try:
                    entry = from_json(content)
                except ValueError as error:
                    text = content.decode(errors="ignore").encode() == content
                    why = str(error).partition(" at line ")[0]
                    said = f"not JSON ({why}); write one object in each line, or correct or delete it"
                    raise ContractError(f"{where}: {said if text else 'not UTF-8; write the file in UTF-8'}") from None
                if not isinstance(entry, dict):
                    raise ContractError(
                        f'{where}: not a JSON object with fields, such as {{"prompt": ...}}: write one a response'
                    )
                yield where, content.decode(errors="replace"), entry
    if not some:
        raise ContractError(f"{path}: the file is empty; give a file with a JSON object in every line")


def extended(text: str, added: Mapping[str, Any]) -> str:
    """The text of a line (`entries`) with further fields appended; its own fields stay as they are."""
    return f"{text[:-1].rstrip()}, {json.dumps(added, ensure_ascii=False)[1:]}\n"


def numbered(folder: Path, pattern: str, example: str) -> dict[int, Path]:
    """Files of a folder by the number that `pattern` finds in their names; files that do not match are left out. Raises
    a ContractError if the folder does not exist, no file matches, or two files have the same number."""
    if not folder.is_dir():
        raise ContractError(f"{folder}: no such folder of rollout dumps")
    files: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        if match := re.fullmatch(pattern, path.name):
            number = int(match[1])
            if number in files:
                raise ContractError(f"{path}: the file has the same number as {files[number].name}; keep one of them")
            files[number] = path
    if not files:
        raise ContractError(f"{folder}: the folder holds no rollout dumps, such as {example}")
    return dict(sorted(files.items()))


@contextmanager
def reading(where: str, names: Mapping[str, str] | None = None) -> Iterator[None]:
    """Turn what pydantic finds wrong with a row into a ContractError of one sentence about file and row (`where`);
    `names` has the names of fields in the file by those of the model, where they differ."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = [str(part) for part in first["loc"]]
        if names and place:
            place[0] = names.get(place[0], place[0])
        field = f"field {'.'.join(place)!r}" if place else "the row"
        if first["type"] == "missing" or first["input"] is None:
            problem = " is missing"
        elif first["type"] == "value_error":
            problem = f" {first.get('ctx', {})['error']}"
        else:
            problem = f" is {shown(first['input'])}: {first['msg'][:1].lower()}{first['msg'][1:]}"
        raise ContractError(f"{where}: {field}{problem}; correct or delete the row") from None


def shown(value: Any) -> str:
    """A value in few words. Plain `repr` would fail on lists of a hundred thousand levels and on endless numbers."""
    try:
        return reprlib.repr(value)
    except (ValueError, RecursionError):
        return f"a value of type {type(value).__name__}"


def with_fields(rows: Iterable[tuple], place: int) -> tuple[dict[str, Any], Iterator[tuple]]:
    """The combined fields of the first rows, whose entry stands at index `place` of each, and all rows again."""
    rows, fields = iter(rows), {}
    first = list(islice(rows, _FIRST))
    for row in reversed(first):  # each field has the value of the first row that has it
        fields |= row[place]
    return fields, chain(first, rows)


def listed(names: Any) -> str:
    """Names joined by commas; those beyond the first twenty are counted."""
    names = [str(name) for name in names]
    more = f" and {len(names) - _SHOWN_NAMES:,} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(names[:_SHOWN_NAMES]) + more


def normalised(question: str) -> str:
    """The question without differences in case and white space; questions with equal results count as the same."""
    return " ".join(question.lower().split())
