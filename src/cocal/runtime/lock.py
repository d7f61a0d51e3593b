"""Locks that die with their process, so that one process at a time writes a folder.

A lock is a file that a process has locked by `flock`. The system releases it when the process ends, however it ends,
and an orderly end deletes the file. It belongs to the process that has taken it, not to its children, since a checking
process or an engine that outlives its killed parent by a moment writes no files. The package filelock leaves its files
behind.
"""

import errno
import fcntl
import logging
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from cocal.errors import BusyError

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
"""Errors that say that a file system has no locks."""
_held: dict[Path, int] = {}
"""The lock file of each folder that this process writes, as path and file descriptor."""


def hold(folder: Path) -> None:
    """Make this process the one writer of a folder, until `release` or its end. The folder need not exist. Raises a
    BusyError if another process writes it; the message names the process and says what to do."""
    file = _file_of(folder)
    if file in _held:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    while file not in _held:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)  # for writing, which locks on NFS need
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 500).decode()
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                raise BusyError(busy(folder, [f"process {holder}"], f"kill {holder}")) from None
            if error.errno not in _NO_LOCKS:
                raise
            logging.warning("%s: this file system has no locks; start no second run of this folder", folder)
            return
        if os.fstat(descriptor).st_nlink:
            _held[file] = descriptor
        else:  # its holder has deleted it before it was locked, so that it would keep nobody out
            os.close(descriptor)
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()} on {socket.gethostname()}".encode())


def release(folder: Path) -> None:
    """Let other processes write the folder."""
    file = _file_of(folder)
    if file in _held:
        file.unlink(missing_ok=True)
        descriptor = _held.pop(file)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def busy(folder: Path, writers: Sequence[str], remedy: str) -> str:
    """The error message about a folder that processes or jobs still write, with the command that ends them."""
    listed = "\n".join(f"  {writer}" for writer in writers)
    return (
        f"{folder}: an earlier run is still at work here, and a second one would write the same files:\n{listed}\n"
        f"wait until it has ended, or end it: {remedy}"
    )


def _file_of(folder: Path) -> Path:
    """The lock file of a folder, which lies beside it, since the folder may be deleted while it is locked."""
    folder = Path(folder).absolute()
    return folder.with_name(f".{folder.name}.lock")


def _forget_locks() -> None:
    """Give up the locks in a forked child, which shares them and must not keep them when its parent has ended."""
    for descriptor in _held.values():
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget_locks)
