"""Folders from elsewhere, such as bundles, which are used only while they hold what their command has written."""

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from cocal.errors import ContractError
from cocal.store.folders import check_folder, listed_files
from cocal.store.origin import PROVENANCE, read_provenance
from cocal.store.seals import stated_seal


def whole_files(folder: Path, stage: str) -> tuple[dict[str, str], Mapping[str, str]]:
    """SHA-256 of every file that a folder from elsewhere lists, by its place, and the provenance of the list, which the
    command `stage` has made. All files are compared; nothing is read that does not lie in the folder. Raises
    ContractError if it has no such list, or a file is missing, has changed, or lies elsewhere."""
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
    return {place: entry["sha256"] for place, entry in listed.items()}, stated


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
