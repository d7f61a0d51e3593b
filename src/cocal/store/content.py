"""Digests of products, which are files or folders: which one it is, and what it holds; folders that list their files.

The identity of a product includes its provenance, and is read from the seals and checksums that its files carry. The
digest of its content leaves the provenance out: two files have the same one if they hold the same numbers and texts to
the last bit, on whatever machine and with whatever versions they were made.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from cocal.errors import ContractError
from cocal.store.atomic import usual_mode
from cocal.store.damage import absent, remedy, unreadable
from cocal.store.files import read_dataset, read_document, read_provenance, stated_seal, write_document
from cocal.store.provenance import canonical, digest, file_digest

PROVENANCE = "provenance.json"


def label_folder(folder: Path, attributes: Mapping[str, str]) -> None:
    """Put provenance attributes, and the sizes and digests of all files, into a finished folder that all may read."""
    files = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file != folder / PROVENANCE:
            usual_mode(file)
            files[str(file.relative_to(folder))] = {"size": file.stat().st_size, "sha256": file_digest(file)}
    write_document(folder / PROVENANCE, {"files": files}, attributes)


def check_folder(folder: str | Path, weights: bool = True) -> None:
    """Compare the files of a folder with their digests. A folder without digests, such as a user's own, is let through.

    Args:
        weights: True to compare the files of weights (.safetensors), too; those of 8 billion numbers take 10 seconds.

    Raises:
        ContractError: if a file is missing, has changed since it was written, or is a pipe or a device.
    """
    folder = Path(folder)
    for entry in folder.glob("*"):
        if entry.exists() and not (entry.is_file() or entry.is_dir()):
            raise ContractError(f"{entry}: is a pipe or a device, which would be read without an end; put a file there")
    for name, written in listed_files(folder).items():
        file = folder / name
        if not weights and file.suffix == ".safetensors":
            continue
        if not file.exists():
            raise ContractError(f"{file}: the file is missing; {remedy(file)}")
        if [file.stat().st_size, file_digest(file)] != [written["size"], written["sha256"]]:
            raise ContractError(f"{file}: the file has changed since it was written; {remedy(file)}")


def listed_files(folder: str | Path) -> dict[str, dict[str, Any]]:
    """Size and digest of each file of a folder, by name, as they were written; empty if the folder lists none.

    Raises:
        ContractError: if the list has changed since it was written.
    """
    file = Path(folder) / PROVENANCE
    return read_document(file).get("files", {}) if file.exists() else {}


def whole_files(folder: Path, stage: str) -> tuple[dict[str, str], Mapping[str, str]]:
    """SHA-256 of every file that a folder from elsewhere lists, by its place, and the provenance of the list, which the
    command `stage` has made. All files are compared; nothing is read that does not lie in the folder.

    Raises:
        ContractError: if it has no such list, or a file is missing, has changed, or lies elsewhere.
    """
    listing, root = folder / PROVENANCE, folder.resolve()
    problem = f"is no list of files; name a folder that `cocal {stage}` has written"
    if not listing.is_file() or not listing.resolve().is_relative_to(root):
        raise ContractError(f"{listing}: {problem}")
    stated, listed = read_provenance(listing), listed_files(folder)
    if stated.get("stage") != stage or stated_seal(listing) is None:
        raise ContractError(f"{listing}: {problem}")
    for place in listed:
        file = folder / place
        if not is_inside(place) or not file.resolve().is_relative_to(root):
            raise ContractError(f"{listing}: names {place!r}, which leaves the folder; do not use it")
        if file.exists() and not file.is_file():
            raise ContractError(f"{file}: is no file; get {folder} again")
    check_folder(folder)
    return {place: one["sha256"] for place, one in listed.items()}, stated


def is_whole(folder: Path, stage: str) -> bool:
    """True if a folder is as its command has written it, and nothing was added, so that replacing it loses nothing."""
    try:
        listed = {*whole_files(folder, stage)[0], PROVENANCE}
    except (ContractError, OSError):
        return False
    return listed == {os.path.relpath(file, folder) for file in folder.rglob("*") if not file.is_dir()}


def is_inside(place: str) -> bool:
    """True if a relative path names a place below where it starts."""
    path = PurePosixPath(place)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\\" not in place


_COMPUTED = ("*.safetensors", "tokenizer.json", "*.parquet")
"""Files of a folder that hold what was computed; the others hold settings and versions."""


def identity(path: Path) -> str:
    """Digest of a product with its provenance, 16 hexadecimal digits.

    Args:
        path: A file, or a folder: a feature store, a checkpoint, companions, or a folder of Parquet tables.

    Raises:
        ContractError: if the product is missing.
    """
    if not path.exists():
        raise ContractError(absent(path))
    if path.is_file():
        return (stated_seal(path) or file_digest(path))[:16]
    if (path / "companions.safetensors").exists():
        return identity(path / "companions.safetensors")
    if (path / "zarr.json").exists():
        found = hashlib.sha256(canonical(read_provenance(path)).encode())
        for chunk, checksum in _chunk_checksums(path).items():
            found.update(chunk.encode() + bytes.fromhex(checksum))
        return found.hexdigest()[:16]
    listed = listed_files(path)
    return digest(listed or {file.name: identity(file) for file in sorted(path.iterdir()) if file.is_file()})


def content_digest(path: Path) -> str:
    """Digest of the content of a product without its provenance, 16 hexadecimal digits.

    Raises:
        ContractError: if the product is missing, damaged, or a folder without any content.
    """
    if not path.exists():
        raise ContractError(absent(path))
    if path.is_file():
        return _DIGESTS.get(path.suffix, file_digest)(path)[:16]
    if (path / "zarr.json").exists():
        return digest(_chunk_checksums(path))
    files = sorted(file for pattern in _COMPUTED for file in path.rglob(pattern))
    if not files:
        raise ContractError(unreadable(path, "folder of results", "it holds no weights and no tables"))
    return digest({str(file.relative_to(path)): content_digest(file) for file in files})


def _chunk_checksums(store: Path) -> dict[str, str]:
    """The checksum of every chunk of a feature store, in hexadecimal digits, by its path within the store."""
    chunks = sorted(file for file in store.rglob("*") if file.is_file() and file.name != "zarr.json")
    found = {}
    for chunk in chunks:
        with chunk.open("rb") as stream:
            stream.seek(max(chunk.stat().st_size - 4, 0))  # its CRC-32C
            found[str(chunk.relative_to(store))] = stream.read().hex()
    return found


def _of_table(path: Path) -> str:
    """Digest of a Parquet table's columns: names, types and values. Numbers are written with all of their digits."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = hashlib.sha256()
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise ContractError(unreadable(path, "Parquet file", error)) from None
    for field, column in zip(table.schema, table.columns, strict=True):
        found.update(json.dumps([field.name, str(field.type), column.to_pylist()], default=str).encode())
    return found.hexdigest()


def _of_arrays(path: Path) -> str:
    """Digest of a NetCDF file's variables and coordinates: names, dimensions, types and values."""
    found = hashlib.sha256()
    for name, array in sorted(read_dataset(path).variables.items()):
        values = array.values
        found.update(json.dumps([str(name), array.dims, str(values.dtype), values.shape]).encode())
        found.update(json.dumps(values.tolist()).encode() if values.dtype.hasobject else values.tobytes())
    return found.hexdigest()


def _of_tensors(path: Path) -> str:
    """Digest of a safetensors file: its header without the metadata, and all of its bytes behind it."""
    with path.open("rb") as stream:
        try:
            length = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(length))
            header.pop("__metadata__", None)
        except (ValueError, OverflowError, MemoryError, AttributeError) as error:
            raise ContractError(unreadable(path, "safetensors file", error)) from None
        return digest([header, hashlib.file_digest(stream, "sha256").hexdigest()])


_DIGESTS: dict[str, Callable[[Path], str]] = {".parquet": _of_table, ".nc": _of_arrays, ".safetensors": _of_tensors}
"""How the content of a kind of file is read; of all other kinds, such as CSV, every byte counts."""
