"""Error messages about missing and unreadable files: only results can be made again, a user's own files cannot.

A message names the whole product to delete. The workflow would not notice that a single file of a checkpoint is gone,
and a run that resumes would never make the first steps of its rollouts again.
"""

import os
from pathlib import Path

from cocal.errors import ContractError
from cocal.runtime.machine_errors import of_memory

RUN_MARK = "settings.digest"
"""Name of the file that marks a folder of unfinished work (`cocal.store.run_folder`)."""

_FOLDERS = {"policies": 3, "rollouts": 2, "companions": 2}
"""The kinds of results that are folders, by the number of names below the kind: step-2 of grpo of tiny."""
_OWN = "it is a file of your own"
_POINTER = b"version https://git-lfs"
"""Beginning of what git-lfs leaves in the place of a file that was not fetched."""


def is_result(path: str | Path) -> bool:
    """True if a file lies below `results/` of the working directory, where the workflow makes everything anew; a user's
    own file that is only linked from there does not."""
    return Path("results").resolve() in Path(path).resolve().parents


def product_of(path: str | Path) -> Path:
    """The path that has to be deleted so that a file is made again: the folder of unfinished work or the result that
    holds it, as the workflow knows it, or else the file itself."""
    path = Path(path)
    folders = (path, *path.parents)
    unfinished = (folder for folder in folders if (folder / RUN_MARK).exists())
    store = (folder for folder in folders if folder.suffix == ".zarr")
    if folder := next(unfinished, None) or next(store, None):
        return folder
    if is_result(path):
        kind, *names = path.resolve().relative_to(Path("results").resolve()).parts
        below = len(names) - _FOLDERS.get(kind, len(names))
        return path.parents[below - 1] if below > 0 else path
    return path


def unreadable(path: str | Path, kind: str, cause: object) -> str:
    """The error message about a file or folder that cannot be read as a kind, such as "Parquet file"; the cause says
    what is wrong, or is a library's error. One that only says that memory is short is raised instead."""
    if isinstance(cause, BaseException) and of_memory(cause):
        raise cause
    return f"{path}: not a readable {kind} ({cause}); {remedy(path)}"


def absent(path: str | Path, kind: str = "file") -> str:
    """The error message about a file or folder that does not exist."""
    if product_of(path).exists():  # the file is a part of something that is there
        advice = remedy(path)
    else:
        advice = "rerun the rule that makes it" if is_result(path) else f"{_OWN}: check its path"
    return f"{path}: no such {kind}; {advice}"


def remedy(path: str | Path, made_again: str = "delete it and rerun") -> str:
    """Advice about a damaged file: what to delete, or `made_again` for a result that is a single file. It never says to
    delete what is neither a result nor unfinished work, which may be the only copy."""
    product = product_of(path)
    if (product / RUN_MARK).exists():
        return f"delete {product}, which holds unfinished work, and run the same command again, which begins anew"
    if not is_result(path):
        return f"{_OWN}: repair it or give another"
    return made_again if product == Path(path) else f"delete {product} and rerun"


def regular(path: Path, kind: str) -> Path:
    """The path of a file of a kind, such as "JSON lines". Raises a ContractError if it is no file, such as a folder."""
    if not is_file(path):
        raise ContractError(f"{path}: there is no such file of {kind}; check its path")
    return fetched(path)


def fetched(path: Path) -> Path:
    """The path of a file that holds its content. Raises a ContractError if git-lfs has left a pointer in its place."""
    with path.open("rb") as stream:
        if stream.read(len(_POINTER)) == _POINTER:
            raise ContractError(f"{path}: is a pointer of git-lfs and not the file itself; fetch it (git lfs pull)")
    return path


def is_file(path: Path) -> bool:
    """Like `Path.is_file`, but False instead of an error for a name that is too long."""
    return os.path.isfile(path)  # noqa: PTH113
