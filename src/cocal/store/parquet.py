"""Parquet files of a user, read in bounded batches: a few hundred kilobytes can hold gigabytes of repeated values."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset  # where memory is short, pyarrow.parquet would go on without it, and fail in words of its own
import pyarrow.parquet as pq

from cocal.errors import ContractError
from cocal.store.damage import unreadable
from cocal.store.rows import in_bytes, regular
from cocal.store.seals import stated_seal

LARGEST_TABLE = 2 * 2**30
"""Decoded bytes of the columns that are read of a file; 2,048 responses of 32,000 tokens take 0.8 GiB."""
_MOST_ROWS = 1024
"""Rows of a batch."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
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
    """The rows of a file in their order, at most `_MOST_ROWS` at a time, of some columns or all. Raises a ContractError
    if the file is missing, unreadable or larger than `LARGEST_TABLE` when decoded."""
    regular(path, "Parquet")
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            file.scan_contents(columns)  # damaged metadata, which would abort the process below, make this fail
            rows = _rows_together(path, file, columns)
            decoded = 0
            for batch in file.iter_batches(batch_size=rows, columns=columns):
                # dictionaries would hide how large the rows become
                plain = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
                written_out = pa.RecordBatch.from_arrays(plain, batch.schema.names)
                decoded += written_out.nbytes
                _check(path, decoded)
                yield written_out
    except UNREADABLE as error:
        raise damaged(path, error) from None


def read_table(file: Path, wanted: Sequence[str]) -> pa.Table:
    """Columns of a file."""
    if stated_seal(file) is not None:
        return pq.read_table(file, columns=wanted, partitioning=None, page_checksum_verification=True)
    return pa.Table.from_batches(batches(file, wanted))  # a user's own table, whose size nobody has bounded


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


def _rows_together(path: Path, file: pq.ParquetFile, columns: Sequence[str] | None) -> int:
    """Number of rows of a batch, so that none exceeds the bound whatever its values are.

    Numbers take as many bytes as the metadata say. A text takes at most its whole part of the file, and every row may
    repeat it.
    """
    decoded, longest = 0, 1
    for group in (file.metadata.row_group(place) for place in range(file.metadata.num_row_groups)):
        for place in range(group.num_columns):
            part = group.column(place)
            if columns is not None and part.path_in_schema.split(".")[0] not in columns:
                continue
            width = _WIDTHS.get(part.physical_type)
            decoded += part.num_values * width if width else part.total_uncompressed_size
            longest = longest if width else max(longest, part.total_uncompressed_size)
    _check(path, decoded)
    return min(max(LARGEST_TABLE // longest, 1), _MOST_ROWS)


def _check(path: Path, decoded: int) -> None:
    if decoded > LARGEST_TABLE:
        raise ContractError(
            f"{path}: {in_bytes(path.stat().st_size)} that become more than {in_bytes(LARGEST_TABLE)} when they are "
            "read; write the rows into several files, or leave out columns that are not needed"
        )
