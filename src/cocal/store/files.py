"""Reading and writing of JSON files and tables, which are sealed and carry their provenance.

A sealed file, also one of safetensors, keeps its provenance as text, in which `BLANK` is room for a digest; `seal`
computes it over the finished file, with the room still blank, and puts it there. A reader that computes it again
notices every changed byte, also those outside the checksums of the format (Parquet's cover pages, but no headers).
"""

import hashlib
import json
import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cocal.errors import ContractError
from cocal.store.atomic import atomic_path
from cocal.store.damage import absent, remedy, unreadable
from cocal.store.origin import PROVENANCE_KEY, SEAL

if TYPE_CHECKING:
    import pandas as pd

    from cocal.store.contracts import Contract

BLANK = "seal:" + "0" * 64
"""Value of the attribute `SEAL` in a file that is not sealed yet."""
_MARK = re.compile(rb"seal:[0-9a-f]{64}")
_SEARCHED = 8 * 2**20
"""Bytes at either end of a file in which its provenance lies."""


def seal(path: str | Path) -> None:
    """Put the digest of a finished file into the file, whose provenance holds `BLANK` once."""
    with Path(path).open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as content:
        place = _place(content)
        content[place : place + len(BLANK)] = _seal_of(content, place)


def stated_seal(path: str | Path) -> str | None:
    """The digest that a sealed file states, 64 hexadecimal digits, without a look at its content; None without a
    seal."""
    with _mapped(path) as content:
        place = _place(content)
        return None if place is None else content[place + len("seal:") : place + len(BLANK)].decode()


def check_seal(path: str | Path) -> None:
    """Compare a file with the digest that it states. A file without a seal, such as a user's own, is let through.

    Raises:
        ContractError: if a byte has changed since the file was written.
    """
    with _mapped(path) as content:
        place = _place(content)
        changed = place is not None and content[place : place + len(BLANK)] != _seal_of(content, place)
    if changed:
        raise ContractError(
            f"{path}: the file has changed since it was written (its content does not match its seal); {remedy(path)}"
        )


@contextmanager
def _mapped(path: str | Path) -> Iterator[mmap.mmap | bytes]:
    """The bytes of a file, which are not read before they are looked at."""
    with Path(path).open("rb") as stream:
        if not stream.read(1):  # an empty file cannot be mapped
            yield b""
            return
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content


def _place(content: mmap.mmap | bytes) -> int | Any:
    """Where the seal begins, None without one; it is sought from the end of the last bytes, then in the first ones."""
    for start in (max(len(content) - _SEARCHED, 0), 0):
        place = content.rfind(b"seal:", start, start + _SEARCHED)
        while place >= 0:
            if _MARK.match(content, place):
                return place
            place = content.rfind(b"seal:", start, place)
    return None


def _seal_of(content: mmap.mmap | bytes, place: int) -> bytes:
    """The right seal of a file: the SHA-256 of its bytes, with the seal itself taken for blank."""
    found = hashlib.sha256()
    with memoryview(content) as view, view[:place] as before, view[place + len(BLANK) :] as after:
        for part in (before, BLANK.encode(), after):
            found.update(part)
    return b"seal:" + found.hexdigest().encode()


def write_document(path: str | Path, content: Mapping[str, Any], attributes: Mapping[str, str]) -> None:
    """Write a JSON object atomically, with its provenance attributes under the key "provenance", and seal it."""
    sealed = {**content, PROVENANCE_KEY: {**attributes, SEAL: BLANK}}
    with atomic_path(path) as partial:
        partial.write_text(json.dumps(sealed, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        seal(partial)


def read_document(path: str | Path) -> dict[str, Any]:
    """The content of a JSON object, without its provenance; the file may be a user's own, without any.

    Raises:
        ContractError: if the file is missing, has changed since it was written, or is no JSON object.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ContractError(absent(path)) from None
    except (OSError, ValueError) as error:
        raise ContractError(unreadable(path, "JSON file", error)) from None
    if not isinstance(content, dict):
        raise ContractError(unreadable(path, "JSON file", f"it holds a {type(content).__name__}, not an object"))
    check_seal(path)
    content.pop(PROVENANCE_KEY, None)
    return content


def write_frame(path: str | Path, frame: "pd.DataFrame", contract: "Contract", attributes: Mapping[str, str]) -> None:
    """Check a table and write it atomically with its provenance attributes, page checksums and seal.

    Raises:
        ContractError: if it breaks the contract; the message names the file, the column and the first bad rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    checked = contract.check(frame, str(path))
    table = pa.Table.from_pandas(checked, schema=pa.schema(list(contract.types.items())), preserve_index=False)
    table = table.replace_schema_metadata({b"cocal": json.dumps({**attributes, SEAL: BLANK}, sort_keys=True).encode()})
    with atomic_path(path) as partial:
        pq.write_table(table, partial, compression="zstd", write_page_checksum=True)
        seal(partial)


def read_frame(path: str | Path, contract: "Contract", columns: Sequence[str] | None = None) -> "pd.DataFrame":
    """Read one Parquet file, or a folder of them in the order of their names, and check it.

    Args:
        columns: Columns to read and check; by default all columns of the contract.

    Returns:
        The rows in file order with index 0 to n - 1; a list column holds NumPy arrays.

    Raises:
        ContractError: if the file is missing or unreadable, has changed since it was written, or breaks the contract.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from cocal.store.parquet import UNREADABLE, check_lists, damaged, read_table

    path = Path(path)
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise ContractError(f"{path}: the folder holds no .parquet file; {remedy(path)}")
    wanted = list(contract.types if columns is None else columns)
    tables = []
    for file in files:
        if not file.exists():
            raise ContractError(absent(file))
        try:
            check_seal(file)
            present = pq.read_schema(file).names
            missing = [name for name in wanted if name not in present]
            if missing:
                raise ContractError(f"{file}: column {missing[0]!r} is missing; contract: {contract.name}")
            tables.append(read_table(file, wanted))
        except UNREADABLE as error:
            raise damaged(file, error) from None
        for name in wanted:
            check_lists(tables[-1][name], contract.types[name], f"{file}: column {name!r}")
    table = pa.concat_tables([t.replace_schema_metadata(None) for t in tables])
    return contract.check(table.to_pandas(), str(path), columns=wanted)
