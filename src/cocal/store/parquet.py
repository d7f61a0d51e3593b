"""Parquet files of a user, read some rows at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset  # where memory is short, pyarrow.parquet would go on without it, and fail in words of its own
import pyarrow.parquet as pq

from cocal.errors import ContractError
from cocal.store.damage import regular, unreadable

_ROWS = 1024
"""Rows of a batch."""
UNREADABLE = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, UnicodeDecodeError)
"""The errors that pyarrow raises about a damaged file; an OSError about damage has no number of the system's errors."""


def damaged(path: str | Path, error: Exception) -> ContractError:
    """The error about a file that pyarrow cannot read. An OSError of the system's own, such as a denied permission, is
    raised, for the file may be whole then."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    return ContractError(unreadable(path, "Parquet file", error))


def columns_of(path: Path) -> pa.Schema:
    """The schema of a file. Raises a ContractError if the file is missing or unreadable."""
    try:
        return pq.read_schema(regular(path, "Parquet"))
    except UNREADABLE as error:
        raise damaged(path, error) from None


def batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a file in their order, at most `_ROWS` at a time, of some columns or all. Raises a ContractError if
    the file is missing or unreadable."""
    regular(path, "Parquet")
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            file.scan_contents(columns)  # damaged metadata, which would abort the process below, make this fail
            for batch in file.iter_batches(batch_size=_ROWS, columns=columns):
                plain = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
                yield pa.RecordBatch.from_arrays(plain, batch.schema.names)
    except UNREADABLE as error:
        raise damaged(path, error) from None


def check_lists(column: pa.ChunkedArray, kind: pa.DataType, where: str) -> None:
    """Refuse by a ContractError rows without a list, or lists that hold something else than `kind` says."""
    if not pa.types.is_list(kind):
        return
    held = column.type.value_type if pa.types.is_list(column.type) or pa.types.is_large_list(column.type) else None
    alike = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string)
    if held is None or not any(like(held) and like(kind.value_type) for like in alike):
        raise ContractError(f"{where} holds {column.type}, not {kind}")
    if column.null_count:
        row = column.is_null().index(True).as_py()
        raise ContractError(f"{where} has no list in row {row}; correct or delete the row")
