"""Which product a file or folder is: its identity includes its provenance, and is read from the seals and checksums
that its files carry."""

import hashlib
from pathlib import Path

from cocal.errors import ContractError
from cocal.store.damage import absent
from cocal.store.folders import listed_files
from cocal.store.origin import read_provenance
from cocal.store.provenance import canonical, digest, file_digest
from cocal.store.seals import stated_seal


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
        found = hashlib.sha256(canonical(read_provenance(path)).encode())
        for chunk, checksum in chunk_checksums(path).items():
            found.update(chunk.encode() + bytes.fromhex(checksum))
        return found.hexdigest()[:16]
    listed = listed_files(path)
    return digest(listed or {file.name: identity(file) for file in sorted(path.iterdir()) if file.is_file()})


def chunk_checksums(store: Path) -> dict[str, str]:
    """The checksum of every chunk of a feature store, in hexadecimal digits, by its path within the store."""
    chunks = sorted(file for file in store.rglob("*") if file.is_file() and file.name != "zarr.json")
    found = {}
    for chunk in chunks:
        with chunk.open("rb") as stream:
            stream.seek(max(chunk.stat().st_size - 4, 0))  # its CRC-32C
            found[str(chunk.relative_to(store))] = stream.read().hex()
    return found
