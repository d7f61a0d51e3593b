"""Atomic writing: a reader finds either the whole file or none."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cocal.errors import ContractError
from cocal.runtime.lock import locked
from cocal.runtime.places import plain
from cocal.store.origin import made_by


@contextmanager
def atomic_path(target: str | Path) -> Iterator[Path]:
    """A temporary path for a file or folder, which replaces `target` when the block ends without an error.

    It lies beside the target in a folder whose name starts with a dot, so that a killed process leaves nothing that a
    later rule would take for a result. The next write of the same target deletes what killed processes have left.
    Raises a ContractError if a file would replace a folder, a folder a file or what CoCal has not made, or either of
    them what is neither, such as a pipe, and an OSError if the file cannot be written.
    """
    target = plain(Path(target))  # a link, such as one to a larger disk, stays
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    descriptor = _lock(scratch)
    try:
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
    finally:
        _delete(scratch, descriptor)


@contextmanager
def together(folder: Path) -> Iterator[Path]:
    """A temporary folder, whose files are put into `folder` and the folders in it, beside others there, when the block
    ends without an error. Raises a ContractError if a file would replace what is none; nothing is replaced then."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent) as scratch:
        yield Path(scratch)
        files = sorted(path for path in Path(scratch).rglob("*") if path.is_file())
        targets = {file: plain(folder / file.relative_to(scratch)) for file in files}
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


def _refuse_loss(target: Path, folder: bool) -> None:
    if target.is_dir() != folder:
        there, new = ("file", "folder") if folder else ("folder", "file")
        raise ContractError(f"{target}: is a {there}, which a {new} would replace; delete it, or write elsewhere")
    if folder and not made_by(target):
        raise ContractError(
            f"{target}: the folder holds files that CoCal has not made and would delete; move them, or write elsewhere"
        )


def _sweep(target: Path) -> None:
    """Delete the scratch folders of this target that no living process has locked."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.\w+\.partial")
    for entry in list(os.scandir(target.parent)):
        if pattern.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
            descriptor = _lock(Path(entry.path))
            if descriptor is not None:
                _delete(Path(entry.path), descriptor)


def _lock(scratch: Path) -> int | None:
    """Lock a scratch folder, so that nobody takes it for a left one; None if it has a writer or is gone."""
    try:
        return locked(scratch / ".lock")
    except OSError:
        return None


def _delete(scratch: Path, descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)  # first, for NFS keeps an open file in its folder
    shutil.rmtree(scratch, ignore_errors=True)
