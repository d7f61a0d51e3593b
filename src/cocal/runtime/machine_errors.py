"""Errors of the machine in one sentence: no space on a disk, no permission, too little memory, a missing package.

Such errors come from many libraries, which are not imported for this: they are recognised by their numbers if they have
one, and otherwise by their texts.
"""

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path

EXTRAS = {
    **dict.fromkeys(("pandera", "pyarrow", "zarr"), "fit"),
    **dict.fromkeys(("datasets", "trl"), "trl"),
}
"""The extra of pyproject.toml that installs a package which only some commands need, by the name of its import."""
_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_SPACE_TEXT = re.compile(
    r"no space left on device|disk quota exceeded|file too large|os error (28|122|27)\b"
    r"|inline_container.*unexpected pos|PytorchStreamWriter failed writing",  # torch.save does not say why
    re.IGNORECASE,
)
_PLACE = {errno.EROFS, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}
"""Errors of a path that cannot be written or read as it is."""
_MEMORY = re.compile(
    r"(can't|cannot|unable to) allocate|out of memory|bad_alloc|can't start new thread|failed to map segment",
    re.IGNORECASE,
)


def explain(error: BaseException, places: Sequence[Path], *, stage: bool = True) -> str | None:
    """The sentence about an error of the machine: what is short, where, and what to do.

    Args:
        error: The error, which may have come from another one.
        places: Files and folders that the command writes, for an error that does not name its file.
        stage: Whether Snakemake runs the command, rather than a person.

    Returns:
        None if it is another error.
    """
    behind: BaseException | None = error
    while (cause := behind) is not None:
        behind = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
        package = (cause.name or "").partition(".")[0] if isinstance(cause, ModuleNotFoundError) else None
        if package in EXTRAS:
            return (
                f"the package {package} is not installed; `pip install '.[{EXTRAS[package]}]'` in a checkout brings it"
            )
        number, path = (cause.errno, cause.filename2 or cause.filename) if isinstance(cause, OSError) else (None, None)
        path = Path(os.fsdecode(path)) if isinstance(path, (str, bytes, os.PathLike)) else None
        words = (os.strerror(number) if number else str(cause).partition("\n")[0]).rstrip(".")
        if number in _SPACE or _SPACE_TEXT.search(str(cause)):
            where = path or " or ".join(map(str, places)) or Path.cwd()
            return (
                f"{where}: could not be written ({words}); free space there, or move the folder to a larger disk and "
                "put a link in its place, and run the same command again: finished work is kept"
            )
        if number in _PLACE and path:
            elsewhere = "run in another folder with `snakemake --directory FOLDER`" if stage else "name another place"
            return f"{path}: {words}, for user {os.geteuid()}; mend it, or {elsewhere}"
        if of_memory(cause):
            lower = ", or lower the study's micro_batch, batch_size or batch_tokens" if stage else ""
            return (
                f"the memory does not suffice ({words or 'as Python says'}); give the job more memory, or a GPU with "
                f"more{lower}, and run the same command again"
            )
    return None


def of_memory(error: BaseException) -> bool:
    """True if an error says that memory is short; whatever was being read may be whole."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return isinstance(error, (ImportError, OSError, RuntimeError)) and _MEMORY.search(str(error)) is not None
