"""Which product a file or folder is, and what it holds.

Its identity includes its provenance, and is read from the seals and checksums that its files carry. The digest of its
content leaves the provenance out: two files have the same one if they hold the same numbers and texts to the last bit,
on whatever machine and with whatever versions they were made.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from cocal.errors import ContractError
from cocal.store.damage import absent, unreadable
from cocal.store.folders import file_digest, listed_files
from cocal.store.origin import read_provenance
from cocal.store.provenance import canonical, digest
from cocal.store.seals import stated_seal
from cocal_study.store.datasets import read_dataset

_COMPUTED = ("*.safetensors", "tokenizer.json", "*.parquet")
"""Files of a folder that hold what was computed; the others hold settings and versions."""


def identity(path: Path) -> str:
    """Digest of a product with its provenance, 16 hexadecimal digits: of a file, or a folder that is a feature store, a
    checkpoint, companions, or Parquet tables. Raises ContractError if the product is missing."""
    if not path.exists():
        raise ContractError(absent(path))
    if path.is_file():
        return (stated_seal(path) or file_digest(path))[:16]
    if (path / "companions.safetensors").exists():
        return identity(path / "companions.safetensors")
    if (path / "zarr.json").exists():
        hasher = hashlib.sha256(canonical(read_provenance(path)).encode())
        for chunk, checksum in chunk_checksums(path).items():
            hasher.update(chunk.encode() + bytes.fromhex(checksum))
        return hasher.hexdigest()[:16]
    listed = listed_files(path)
    return digest(listed or {file.name: identity(file) for file in sorted(path.iterdir()) if file.is_file()})


def chunk_checksums(store: Path) -> dict[str, str]:
    """The checksum of every chunk of a feature store, in hexadecimal digits, by its path within the store."""
    chunks = sorted(file for file in store.rglob("*") if file.is_file() and file.name != "zarr.json")
    checksums = {}
    for chunk in chunks:
        with chunk.open("rb") as stream:
            stream.seek(max(chunk.stat().st_size - 4, 0))  # its CRC-32C
            checksums[str(chunk.relative_to(store))] = stream.read().hex()
    return checksums


def content_digest(path: Path) -> str:
    """Digest of the content of a product without its provenance, 16 hexadecimal digits. Raises ContractError if the
    product is missing, damaged, or a folder without any content."""
    if not path.exists():
        raise ContractError(absent(path))
    if path.is_file():
        return _DIGESTS.get(path.suffix, file_digest)(path)[:16]
    if (path / "zarr.json").exists():
        return digest(chunk_checksums(path))
    files = sorted(file for pattern in _COMPUTED for file in path.rglob(pattern))
    if not files:
        raise ContractError(unreadable(path, "folder of results", "it holds no weights and no tables"))
    return digest({str(file.relative_to(path)): content_digest(file) for file in files})


def _of_table(path: Path) -> str:
    """Digest of a Parquet table's columns: names, types and values. Numbers are written with all of their digits."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    hasher = hashlib.sha256()
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise ContractError(unreadable(path, "Parquet file", error)) from None
    for field, column in zip(table.schema, table.columns, strict=True):
        hasher.update(json.dumps([field.name, str(field.type), column.to_pylist()], default=str).encode())
    return hasher.hexdigest()


def _of_arrays(path: Path) -> str:
    """Digest of a NetCDF file's variables and coordinates: names, dimensions, types and values."""
    hasher = hashlib.sha256()
    for name, array in sorted(read_dataset(path).variables.items()):
        values = array.values
        hasher.update(json.dumps([str(name), array.dims, str(values.dtype), values.shape]).encode())
        hasher.update(json.dumps(values.tolist()).encode() if values.dtype.hasobject else values.tobytes())
    return hasher.hexdigest()


def _of_tensors(path: Path) -> str:
    """Digest of a safetensors file: its header without the metadata, and all bytes after it."""
    with path.open("rb") as stream:
        try:
            length = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(length))
            header.pop("__metadata__", None)
        except (ValueError, OverflowError, MemoryError, AttributeError) as error:
            raise ContractError(unreadable(path, "safetensors file", error)) from None
        return digest([header, hashlib.file_digest(stream, "sha256").hexdigest()])


_DIGESTS: dict[str, Callable[[Path], str]] = {".parquet": _of_table, ".nc": _of_arrays, ".safetensors": _of_tensors}
"""The digest of the content by kind of file; in all other kinds, such as CSV, every byte counts."""
