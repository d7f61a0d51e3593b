"""Atomic writing: a reader finds either the whole file or none."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from cocal.errors import ContractError
from cocal.store.origin import made_by


@contextmanager
def atomic_path(target: str | Path) -> Iterator[Path]:
    """A temporary path for a file or folder, which replaces `target` when the block ends without an error.

    It lies beside the target in a folder whose name starts with a dot, so that a killed process leaves nothing that a
    later rule would take for a result. Raises a ContractError if a file would replace a folder, a folder a file or what
    CoCal has not made, or either of them a pipe or the like, and an OSError if the file cannot be written.
    """
    target = _behind_links(Path(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _beside(target) as scratch:
            partial = scratch / target.name
            yield partial
            if not partial.exists():
                raise FileNotFoundError(f"{target}: nothing was written")
            if target.exists():
                _refuse_loss(target, partial.is_dir())
            if target.is_dir():
                target.rename(scratch / "replaced")  # a folder cannot be renamed over another
            partial.replace(target)
    except OSError as error:
        if error.errno is not None and error.filename is None:  # the system does not name a file that is open already
            error.filename = str(target)
        raise


@contextmanager
def together(folder: Path) -> Iterator[Path]:
    """A temporary folder, whose files are put into `folder` and the folders in it, beside others there, when the block
    ends without an error. Raises a ContractError if a file would replace something else; nothing is replaced then."""
    folder = _behind_links(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _beside(folder) as scratch:
        yield scratch
        files = sorted(path for path in scratch.rglob("*") if path.is_file())
        targets = {file: _behind_links(folder / file.relative_to(scratch)) for file in files}
        for target in filter(Path.exists, targets.values()):
            _refuse_loss(target, folder=False)
        for file, target in targets.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(file, target)


def write_text(target: str | Path, text: str) -> None:
    """Write a text file atomically in UTF-8 and keep its line ends as they are."""
    with atomic_path(target) as partial:
        partial.write_bytes(text.encode("utf-8"))


def usual_mode(file: Path) -> None:
    """Give a file the mode of a file that `open` creates; safetensors writes files that only their owner may read."""
    mask = os.umask(0o077)  # it can be read only by setting it
    os.umask(mask)
    file.chmod(0o666 & ~mask)


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    names = {"prefix": f".{target.name}.", "suffix": ".partial"}
    with TemporaryDirectory(dir=target.parent, ignore_cleanup_errors=True, **names) as scratch:
        yield Path(scratch)


def _behind_links(path: Path) -> Path:
    """The path that a link leads to, such as one on a larger disk, so that the link stays. A ContractError refuses what
    is neither a file nor a folder, such as a pipe."""
    real = Path(os.path.realpath(path))
    if real.is_relative_to("/proc") or (real.exists() and not (real.is_file() or real.is_dir())):
        raise ContractError(f"{path}: is a pipe or a device, which holds no file; give another name")
    return real


def _refuse_loss(target: Path, folder: bool) -> None:
    if target.is_dir() != folder:
        there, new = ("file", "folder") if folder else ("folder", "file")
        raise ContractError(f"{target}: is a {there}, which a {new} would replace; delete it, or write elsewhere")
    if folder and not made_by(target):
        raise ContractError(
            f"{target}: the folder holds files that CoCal has not made and would delete; move them, or write elsewhere"
        )
