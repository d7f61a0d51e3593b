"""One sentence for what a machine refuses: space on a disk, permission to write, memory, a package, a folder as a file.

The error may come from any library, and each has its own words, so the errors are known by their numbers where they
carry one and otherwise by their texts. Libraries are not imported for this.
"""

import errno
import os
import pwd
import re
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

EXTRAS = {
    **dict.fromkeys(("accelerate", "datasets", "pandera", "pyarrow", "trl", "zarr"), "train"),
    **dict.fromkeys(("gguf", "h5netcdf", "h5py", "sklearn", "snakemake", "xarray"), "workflow"),
    "rocrate": "publish",
}
"""The extra of pyproject.toml that installs a package which only some commands need, by the name of its import."""
_FULL = {
    errno.ENOSPC: "no space is left on its file system",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than this process may write (`ulimit -f`)",
}
_FULL_TEXTS = {
    r"(?i)no space left on device|os error 28\b": _FULL[errno.ENOSPC],
    r"(?i)disk quota exceeded|os error 122\b": _FULL[errno.EDQUOT],
    # torch.save does not say why it could not write
    r"inline_container.*unexpected pos|PytorchStreamWriter failed writing": "it could not be written whole",
}
_NO_FILE = {
    errno.EISDIR: "is a folder where a file is needed",
    errno.ENOTDIR: "lies below a file, which is no folder",
    errno.ELOOP: "is a symbolic link that leads back to itself",
}
_DENIED = {errno.EROFS, errno.EACCES, errno.EPERM}
_MEMORY = re.compile(
    r"(can't|cannot|unable to) allocate|out of memory|bad_alloc|can't start new thread|failed to map segment",
    re.IGNORECASE,
)
_SIZE = re.compile(r"allocate (?P<size>[\d.]+ [KMGTPE]iB)|(allocate|alloc of size) (?P<bytes>\d+)")
MEMORY_SETTINGS = {
    "train": ("policy.micro_batch",),
    "resample": ("generation.engine.batch_size", "features.batch_tokens"),
    "responses": ("generation.engine.batch_size",),
    "replay": ("features.batch_tokens",),
    "features": ("features.batch_tokens",),
    "prompts": ("features.batch_tokens",),
    "import-rollouts": ("features.batch_tokens",),
}
"""The settings of a study that bound the memory of a command and leave the protocol alone."""


def explain(error: BaseException, command: str, places: Sequence[Path], *, stage: bool = True) -> str | None:
    """The sentence about an error of the machine: what is short, where, and what to do.

    Args:
        error: The error, which may have come from another one.
        command: Command of `cocal` that failed.
        places: Files and folders that the command writes, for an error that does not name its file.
        stage: Whether Snakemake runs the command, rather than a person.

    Returns:
        None if it is another error.
    """
    while error is not None:
        one, error = error, error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        package = (one.name or "").partition(".")[0] if isinstance(one, ModuleNotFoundError) else None
        if package in EXTRAS:
            return f"the package {package} is not installed; `pip install 'cocal[{EXTRAS[package]}]'` brings it"
        number, path = (one.errno, _path(one)) if isinstance(one, OSError) else (None, None)
        in_text = (words for pattern, words in _FULL_TEXTS.items() if re.search(pattern, str(one)))
        if full := _FULL.get(number) or next(in_text, None):
            free = {place: shutil.disk_usage(_existing(place)) for place in ([path] if path else places or [Path()])}
            fullest = min(free, key=lambda place: free[place].free)
            disk = free[fullest]
            return (
                f"{fullest}: {full} ({_size(disk.free)} of {_size(disk.total)} are free now); free space there, or "
                "move the folder to a larger disk and put a link in its place, and run the same command again: "
                "finished work is kept"
            )
        if number in _DENIED and path:
            return _denied(path, number == errno.EROFS, "`snakemake --directory FOLDER`" if stage else "another output")
        if number in _NO_FILE and path:
            return f"{path}: {_NO_FILE[number]}; put the file back, or give another"
        if of_memory(one):
            return _no_memory(str(one), command)
    return None


def of_memory(error: BaseException) -> bool:
    """True if an error says that memory is short; whatever was being read may be whole."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return isinstance(error, (ImportError, OSError, RuntimeError)) and _MEMORY.search(str(error)) is not None


def _path(error: OSError) -> Path | None:
    """The file that could not be written; of a copy or a renaming, the target."""
    names = (error.filename2, error.filename)
    return next((Path(os.fsdecode(name)) for name in names if isinstance(name, (str, bytes, os.PathLike))), None)


def _existing(path: Path) -> Path:
    """The path itself, or the nearest folder above it that exists."""
    for one in (path.absolute(), *path.absolute().parents):
        with suppress(OSError):  # it does not exist, or lies in a folder that this user may not enter
            one.stat()
            return one
    return Path("/")


def _denied(path: Path, read_only: bool, elsewhere: str) -> str:
    if read_only:
        return (
            f"{path}: its file system is mounted read-only; make it writable, or run in another folder with {elsewhere}"
        )
    known = _existing(path)
    owner, mode = _name(known.stat().st_uid), stat.filemode(known.stat().st_mode)
    return (
        f"{path}: {_name(os.geteuid())} has no permission for this; {known} belongs to {owner} and has the mode "
        f"{mode}: have it changed, or run in a folder of your own with {elsewhere}"
    )


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _no_memory(text: str, command: str) -> str:
    device = " of the GPU" if "CUDA" in text else ""
    found = _SIZE.search(text)
    asked = "" if found is None else f": {found['size'] or _size(int(found['bytes']))} more were asked for"
    settings = MEMORY_SETTINGS.get(command, ())
    lower = f", or lower {' or '.join(settings)} of the study (the job then begins anew)" if settings else ""
    more = "take a GPU with more memory" if device else "give the job more memory"
    return f"the memory{device} does not suffice{asked}; {more}{lower}, and run the same command again"


def _size(count: int) -> str:
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = (max(count, 1).bit_length() - 1) // 10
    return f"{count / 1024**power:.4g} {units[power]}"
