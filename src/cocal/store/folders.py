"""Folders that list their files, with the size and the digest of each, so that a reader notices what has changed."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cocal.errors import ContractError
from cocal.store.atomic import usual_mode
from cocal.store.damage import remedy
from cocal.store.files import read_document, write_document
from cocal.store.origin import PROVENANCE


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, 64 hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def label_folder(folder: Path, attributes: Mapping[str, str]) -> None:
    """Put provenance attributes, and the sizes and digests of all files, into a finished folder that all may read."""
    files = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file != folder / PROVENANCE:
            usual_mode(file)
            files[str(file.relative_to(folder))] = {"size": file.stat().st_size, "sha256": file_digest(file)}
    write_document(folder / PROVENANCE, {"files": files}, attributes)


def check_folder(folder: str | Path, weights: bool = True) -> None:
    """Compare the files of a folder with their digests, those of weights (.safetensors) only if wanted, since 8 billion
    numbers take 10 seconds. A folder without digests, such as a user's own, is let through. Raises a ContractError if a
    file is missing, has changed since it was written, or is a pipe or a device."""
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
            raise ContractError(
                f"{file}: the file has changed since it was written ({PROVENANCE} beside it has its digest); "
                f"{remedy(file)}"
            )


def listed_files(folder: str | Path) -> dict[str, dict[str, Any]]:
    """Size and digest of each file of a folder by name; empty without a list. A changed list raises a ContractError."""
    file = Path(folder) / PROVENANCE
    return read_document(file).get("files", {}) if file.exists() else {}
