"""Folders of files that other libraries write, such as checkpoints: `provenance.json` lists the digest of each file."""

import json
from collections.abc import Mapping
from contextlib import suppress
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
    files = {
        str(file.relative_to(folder)): {"size": file.stat().st_size, "sha256": file_digest(file)}
        for file in _files(folder)
    }
    write_document(folder / PROVENANCE, {"files": files}, attributes)


def check_folder(folder: str | Path, weights: bool = True) -> None:
    """Compare the files of a folder with their digests. A folder without digests, such as a user's own, is let through.

    Large files are read once; their digests are remembered by size and time in a hidden file beside the folder.

    Args:
        weights: True to compare the files of weights (.safetensors), too.

    Raises:
        ContractError: if a file is missing, has changed since it was written, or is a pipe or a device.
    """
    folder = Path(folder)
    for entry in folder.glob("*"):
        if entry.exists() and not (entry.is_file() or entry.is_dir()):
            raise ContractError(f"{entry}: is a pipe or a device, which would be read without an end; put a file there")
    memory = folder.resolve().with_name(f".{folder.resolve().name}.digests.json")
    known = _remembered(memory)
    found: dict[str, list] = {}
    for name, written in listed_files(folder).items():
        file = folder / name
        if not weights and file.suffix == ".safetensors":
            continue
        if not file.exists():
            raise ContractError(f"{file}: the file is missing; {remedy(file)}")
        state = [file.stat().st_size, file.stat().st_mtime_ns]
        if state[0] >= _LARGE and known.get(file.name, [])[:2] == state:
            found[file.name] = known[file.name]
        else:
            found[file.name] = [*state, file_digest(file)]
        if [state[0], found[file.name][2]] != [written["size"], written["sha256"]]:
            raise ContractError(f"{file}: the file has changed since it was written; {remedy(file)}")
    large = {name: entry for name, entry in found.items() if entry[0] >= _LARGE}
    if known != {**known, **large}:
        with suppress(OSError):  # the folder may lie in a place that cannot be written
            write_text(memory, json.dumps({**known, **large}) + "\n")


def listed_files(folder: str | Path) -> dict[str, dict[str, Any]]:
    """Size and digest of each file of a folder, by name, as they were written; empty if the folder lists none.

    Raises:
        ContractError: if the list has changed since it was written.
    """
    file = Path(folder) / PROVENANCE
    return read_document(file).get("files", {}) if file.exists() else {}


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file() and file != folder / PROVENANCE)


def _remembered(memory: Path) -> dict[str, list]:
    """Size, time of modification and digest of large files that were read before."""
    try:
        known = json.loads(memory.read_text(encoding="utf-8"))
        return {name: entry for name, entry in known.items() if isinstance(entry, list) and len(entry) == 3}
    except (OSError, ValueError, AttributeError):
        return {}
