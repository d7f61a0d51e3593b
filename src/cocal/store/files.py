"""Reading and writing of JSON files and tables, which are sealed (`cocal.store.seals`) and carry their provenance."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cocal.errors import ContractError
from cocal.store.atomic import atomic_path
from cocal.store.damage import absent, remedy, unreadable
from cocal.store.origin import PROVENANCE_KEY, SEAL
from cocal.store.seals import BLANK, check_seal, seal

if TYPE_CHECKING:
    import pandas as pd

    from cocal.store.contracts import Contract


def write_document(path: str | Path, content: Mapping[str, Any], attributes: Mapping[str, str]) -> None:
    """Write a JSON object atomically, with its provenance attributes under the key "provenance", and seal it."""
    sealed = {**content, PROVENANCE_KEY: {**attributes, SEAL: BLANK}}
    with atomic_path(path) as partial:
        partial.write_text(json.dumps(sealed, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        seal(partial)


def read_document(path: str | Path) -> dict[str, Any]:
    """The content of a JSON object, without its provenance; see `read_labelled`."""
    return read_labelled(path)[0]


def read_labelled(path: str | Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The content of a JSON object, and its provenance attributes, with its seal if it has one; a user's own file has
    none. Raises a ContractError if the file is missing, has changed since it was written, or is no JSON object."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ContractError(absent(path)) from None
    except (OSError, ValueError) as error:
        raise ContractError(unreadable(path, "JSON file", error)) from None
    if not isinstance(content, dict):
        raise ContractError(unreadable(path, "JSON file", f"it holds a {type(content).__name__}, not an object"))
    stated = content.pop(PROVENANCE_KEY, None)
    attributes = stated if isinstance(stated, dict) else {}
    if not check_seal(path):
        attributes.pop(SEAL, None)
    return content, attributes


def write_frame(path: str | Path, frame: "pd.DataFrame", contract: "Contract", attributes: Mapping[str, str]) -> None:
    """Check a table and write it atomically with its provenance attributes, page checksums and seal. Raises a
    ContractError if it breaks the contract; the message names the file, the column and the first bad rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    checked = contract.check(frame, str(path))
    schema = pa.schema([(name, contract.types[name]) for name in checked.columns])
    table = pa.Table.from_pandas(checked, schema=schema, preserve_index=False)
    table = table.replace_schema_metadata({b"cocal": json.dumps({**attributes, SEAL: BLANK}, sort_keys=True).encode()})
    with atomic_path(path) as partial:
        pq.write_table(table, partial, compression="zstd", write_page_checksum=True)
        seal(partial)


def read_frame(path: str | Path, contract: "Contract", columns: Sequence[str] | None = None) -> "pd.DataFrame":
    """Read one Parquet file, or a folder of them in the order of their names, and check it. Raises a ContractError if
    the file is missing or unreadable, has changed since it was written, or breaks the contract.

    Args:
        columns: Columns to read and check; by default those that the contract expects of the first file.

    Returns:
        The rows in file order with index 0 to n - 1; a list column holds NumPy arrays.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from cocal.store.parquet import UNREADABLE, batches, check_lists, damaged  # needs the extra `fit`

    path = Path(path)
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise ContractError(f"{path}: the folder holds no .parquet file; {remedy(path)}")
    wanted, tables = columns if columns is None else list(columns), []
    for file in files:
        if not file.exists():
            raise ContractError(absent(file))
        try:
            sealed = check_seal(file)
            present = pq.read_schema(file).names
            wanted = contract.expected(present) if wanted is None else wanted
            missing = [name for name in wanted if name not in present]
            if missing:
                raise ContractError(f"{file}: column {missing[0]!r} is missing; contract: {contract.name}")
            if sealed:
                whole = pq.read_table(file, columns=wanted, partitioning=None, page_checksum_verification=True)
            else:  # a user's own table, which may hold dictionaries
                whole = pa.Table.from_batches(batches(file, wanted))
            tables.append(whole)
        except UNREADABLE as error:
            raise damaged(file, error) from None
        for name in wanted:
            check_lists(tables[-1][name], contract.types[name], f"{file}: column {name!r}")
    table = pa.concat_tables([t.replace_schema_metadata(None) for t in tables])
    return contract.check(table.to_pandas(), str(path), columns=wanted)
