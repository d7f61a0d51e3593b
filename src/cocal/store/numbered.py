"""Files that carry the number of a rollout step in their names."""

import re
from pathlib import Path

from cocal.errors import ContractError


def numbered(folder: Path, pattern: str, example: str) -> dict[int, Path]:
    """Files of a folder by the number that `pattern` finds in their names; files that do not match are left out.

    Raises:
        ContractError: if the folder does not exist, no file matches, or two files have the same number.
    """
    if not folder.is_dir():
        raise ContractError(f"{folder}: no such folder of rollout dumps")
    found: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        if match := re.fullmatch(pattern, path.name):
            number = int(match[1])
            if number in found:
                raise ContractError(f"{path}: the file has the same number as {found[number].name}; keep one of them")
            found[number] = path
    if not found:
        raise ContractError(f"{folder}: the folder holds no rollout dumps, such as {example}")
    return dict(sorted(found.items()))
