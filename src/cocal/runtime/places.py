"""Paths that may be replaced: plain files and folders, and links to them."""

import os
from pathlib import Path

from cocal.errors import ContractError

_OPEN_FILES = "/proc/", "/dev/fd/"
"""Folders of links to what processes have open: /dev/stdout leads there, and so may a link of anybody's."""


def plain(path: Path) -> Path:
    """The path at which a file or folder may be put: that behind a link, which stays, or else the path itself. Raises a
    ContractError if something else is there, such as a pipe, a device, or an open file of a process."""
    way = path
    for _ in range(40):  # as many as the system follows
        parent = os.path.realpath(way.parent)
        if f"{parent}/".startswith(_OPEN_FILES):
            raise ContractError(f"{path}: leads to what a process has open; give the name of a file")
        if not way.is_symlink():
            break
        way = Path(parent, way.readlink())
    if way.exists() and not way.is_file() and not way.is_dir():
        raise ContractError(f"{path}: is a pipe or a device, which holds no file; give another name")
    return way if way.exists() else path
