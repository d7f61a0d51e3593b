"""Folders of files that other libraries write, such as checkpoints: `provenance.json` lists the digest of each file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cocal.errors import ContractError
from cocal.store.atomic import usual_mode, write_text
from cocal.store.damage import remedy
from cocal.store.documents import read_document, write_document
from cocal.store.provenance import file_digest

PROVENANCE = "provenance.json"
_LARGE = 64 * 2**20
"""Bytes from which on the digest of a file is remembered: a policy of 8 billion weights takes 10 seconds to read."""


def label_folder(folder: Path, attributes: Mapping[str, str]) -> None:
    """Put provenance attributes, and the sizes and digests of all files, into a finished folder that all may read."""
    for file in _files(folder):
        usual_mode(file)
    files = {str(file.relative_to(folder)): _described(file) for file in _files(folder)}
    write_document(folder / PROVENANCE, {"files": files}, attributes)


def check_folder(folder: str | Path, weights: bool = True) -> None:
    """Compare the files of a folder with their digests. A folder without digests, such as a user's own, is let through.

    Large files are read once; their digests are remembered by size and time in a hidden file beside the folder.

    Args:
        weights: Whether to compare the files of weights (.safetensors), too.

    Raises:
        ContractError: if a file is missing, has changed since it was written, or is a pipe or a device.
    """
    folder = Path(folder)
    for entry in folder.glob("*"):
        if entry.exists() and not (entry.is_file() or entry.is_dir()):
            raise ContractError(f"{entry}: is a pipe or a device, which would be read without an end; put a file there")
    listed = listed_files(folder)
    if not listed:
        return
    known = _Remembered(folder.resolve())
    for name, written in listed.items():
        file = folder / name
        if not weights and file.suffix == ".safetensors":
            continue
        if not file.exists():
            raise ContractError(f"{file}: the file is missing; {remedy(file)}")
        if file.stat().st_size != written["size"] or known.digest(file) != written["sha256"]:
            raise ContractError(f"{file}: the file has changed since it was written; {remedy(file)}")
    known.save()


def listed_files(folder: str | Path) -> dict[str, dict[str, Any]]:
    """Size and digest of each file of a folder, by name, as they were written; empty if the folder lists none.

    Raises:
        ContractError: if the list has changed since it was written.
    """
    file = Path(folder) / PROVENANCE
    return read_document(file).get("files", {}) if file.exists() else {}


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file() and file != folder / PROVENANCE)


def _described(file: Path) -> dict[str, Any]:
    return {"size": file.stat().st_size, "sha256": file_digest(file)}


class _Remembered:
    """Digests of large files that were read before, by size and time of modification."""

    def __init__(self, folder: Path):
        self._file = folder.with_name(f".{folder.name}.digests.json")
        try:
            self._known = dict(json.loads(self._file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            self._known = {}
        self._found: dict[str, list] = {}

    def digest(self, file: Path) -> str:
        """SHA-256 of a file, which is read unless it is remembered."""
        state = file.stat()
        if state.st_size < _LARGE:
            return file_digest(file)
        known = self._known.get(file.name)
        if not (isinstance(known, list) and known[:2] == [state.st_size, state.st_mtime_ns]):
            known = [state.st_size, state.st_mtime_ns, file_digest(file)]
        self._found[file.name] = known
        return known[2]

    def save(self) -> None:
        """Remember what was found, where the folder lies in a place that can be written."""
        if self._found and self._known != {**self._known, **self._found}:
            try:
                write_text(self._file, json.dumps({**self._known, **self._found}) + "\n")
            except OSError:
                return
