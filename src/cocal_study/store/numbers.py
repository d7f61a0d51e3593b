"""The numbers of tables and figures, and the digests of all forms of these, which lie in hidden files beside them."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cocal.errors import ContractError
from cocal.store.atomic import write_text
from cocal.store.damage import absent, is_result, remedy, unreadable
from cocal.store.folders import file_digest

if TYPE_CHECKING:
    import pandas as pd

BESIDE = ".sha256"
"""Ending of the hidden file that seals files without room for a seal."""


def seal_beside(*files: Path) -> None:
    """Write the digests of finished results of one stem into a hidden file beside them, as `sha256sum` writes them.

    The forms of a table or figure are sealed so, because CSV has no room for a seal, and a page should not show one.
    Files outside `results/` are a user's own and stay without.
    """
    if not is_result(files[0]):
        return
    write_text(_beside(files[0]), "".join(f"{file_digest(file)}  {file.name}\n" for file in files))


def check_beside(path: str | Path) -> None:
    """Compare a file with the digest that lies beside it (`seal_beside`). A file without one is let through. Raises
    ContractError if a byte has changed since the file was written."""
    path = Path(path)
    try:
        lines = _beside(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    stated = [digest for digest, _, name in (line.partition("  ") for line in lines) if name == path.name]
    if stated and stated[0] != file_digest(path):
        raise ContractError(
            f"{path}: the file has changed since it was written (its content does not match the digest beside it); "
            f"{remedy(path)}"
        )


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.stem}{BESIDE}")


def read_numbers(path: str | Path, columns: Iterable[str] = (), **options: Any) -> "pd.DataFrame":
    """The numbers of a table or figure, or what was gathered of one, as `cocal.metrics.shown.csv_text` writes them;
    options are those of `pandas.read_csv`. Raises ContractError if the file is missing, has changed since it was
    written, or is no such table or lacks one of the columns."""
    import pandas as pd

    if not Path(path).is_file():
        raise ContractError(absent(path))
    check_beside(path)
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values=["NaN"], **options)
    except ValueError as error:
        raise ContractError(unreadable(path, "CSV file", error)) from None
    if missing := [name for name in columns if name not in table]:
        raise ContractError(unreadable(path, "CSV file", f"it has no column {missing[0]!r}"))
    return table
