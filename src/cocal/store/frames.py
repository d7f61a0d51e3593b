"""Reading and writing of tables as Parquet files; both check the table's contract."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cocal.errors import ContractError
from cocal.store.atomic import atomic_path
from cocal.store.damage import absent, remedy, unreadable
from cocal.store.seal import BLANK, KEY, check_seal, seal

if TYPE_CHECKING:
    import pandas as pd

    from cocal.store.contract import Contract


def write_frame(path: str | Path, frame: "pd.DataFrame", contract: "Contract", attributes: Mapping[str, str]) -> None:
    """Check `frame` against `contract` and write it atomically with its provenance attributes, page checksums and seal.

    Raises:
        ContractError: if it breaks the contract; the message names the file, the column and the first bad rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    checked = contract.check(frame, str(path))
    table = pa.Table.from_pandas(checked, schema=contract.arrow_schema(), preserve_index=False)
    table = table.replace_schema_metadata({b"cocal": json.dumps({**attributes, KEY: BLANK}, sort_keys=True).encode()})
    with atomic_path(path) as partial:
        pq.write_table(table, partial, compression="zstd", write_page_checksum=True)
        seal(partial)


def read_frame(
    path: str | Path,
    contract: "Contract",
    columns: Sequence[str] | None = None,
    where: Sequence[tuple[str, str, object]] | None = None,
) -> "pd.DataFrame":
    """Read one Parquet file, or a folder of them in the order of their names, and check it.

    Args:
        columns: Columns to read and check; by default all columns of the contract.
        where: Conditions (column, comparison, value) that all rows must meet; by default all rows are read.

    Returns:
        The rows in file order with index 0 to n - 1; a list column holds NumPy arrays.

    Raises:
        ContractError: if the file is missing or unreadable, has changed since it was written, lacks a column or breaks
            the contract.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from cocal.store.parquet import UNREADABLE, check_lists, read_table

    path = Path(path)
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise ContractError(f"{path}: the folder holds no .parquet file; {remedy(path)}")
    wanted = list(columns) if columns is not None else list(contract.columns)
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
            tables.append(read_table(file, wanted, where))
        except UNREADABLE as error:
            raise ContractError(unreadable(file, "Parquet file", error)) from None
        for name in wanted:
            check_lists(tables[-1][name], contract.types[name], f"{file}: column {name!r}")
    table = pa.concat_tables([t.replace_schema_metadata(None) for t in tables])
    return contract.check(table.to_pandas(), str(path), columns=wanted)
