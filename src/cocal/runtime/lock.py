"""Locks that die with their process, so that one process at a time writes a folder.

A lock is a file that a process has locked by `flock`. The system releases it when the process ends, however it ends;
nothing is left that somebody would have to clear away. Where a file system has no such locks, a warning says so, and
the process goes on without.

The lock belongs to the process that has taken it, not to its children: a child that is forked closes the file at once,
and a program that is started never gets it, for a checking process or an engine that outlives its killed parent by a
moment writes no files. Only a program that writes into the folder itself is given the file (`held`), and then the lock
lives as long as the program does.

The package filelock has other rules: it leaves its files behind, keeps their descriptors to itself, and takes a file
that survives a kill for a lock where there is no `flock`.
"""

import errno
import fcntl
import json
import logging
import os
import shlex
import socket
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from cocal.errors import BusyError

_COMMAND_WIDTH = 160
"""Number of characters of the command that a lock file holds: settings make a command long."""
_open: set[int] = set()
"""The lock files that this process has open, by file descriptor."""
_held: dict[Path, int] = {}
"""The lock file of each folder that this process writes, as path and file descriptor."""


def hold(folder: Path, wait: bool = False) -> None:
    """Make this process the one writer of a folder, until `release` or its end. The folder need not exist.

    Args:
        folder: The folder.
        wait: True to wait for another process that writes it, and only to log its name.

    Raises:
        BusyError: if another process writes it, and `wait` is false; the message names the process and says what to do.
    """
    file = _file_of(folder)
    if file in _held:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, patient = None, False
    while descriptor is None:
        try:
            descriptor = take(file, patient)
        except BlockingIOError:
            if not wait:
                raise BusyError(_refusal(folder, file)) from None
            logging.warning("%s", _refusal(folder, file))
            patient = True
        except OSError as error:
            if not unsupported(error):
                raise
            logging.warning("%s: this file system has no locks; start no second run of this folder", folder)
            return
    command = textwrap.shorten(shlex.join(sys.argv), _COMMAND_WIDTH, placeholder=" ...")
    writer = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    os.ftruncate(descriptor, 0)
    os.write(descriptor, json.dumps(writer | {"command": command}).encode())
    _held[file] = descriptor


def held(folder: Path) -> tuple[int, ...]:
    """The file descriptor of the folder's lock, for a program that writes into the folder; none without a lock."""
    file = _file_of(folder)
    return (_held[file],) if file in _held else ()


def release(folder: Path) -> None:
    """Let other processes write the folder, even if a program that was given the lock still runs."""
    file = _file_of(folder)
    descriptor = _held.pop(file, None)
    if descriptor is not None:
        file.unlink(missing_ok=True)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        close(descriptor)


@contextmanager
def one_writer(target: Path) -> Iterator[None]:
    """Hold the lock of a file or folder while the block runs, after any process that holds it now."""
    hold(target, wait=True)
    try:
        yield
    finally:
        release(target)


def take(file: Path, wait: bool) -> int | None:
    """Open a file, which is made if need be, and lock it.

    Args:
        file: Lock file, in a folder that exists.
        wait: True to wait while another process holds the lock.

    Returns:
        The file descriptor, for `close`; None if the file was deleted before it was locked, so that the lock would
        keep nobody out.

    Raises:
        BlockingIOError: if another process holds the lock, and `wait` is false.
        OSError: if the file cannot be made, or the file system has no locks.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)  # for writing, which locks on NFS need
    _open.add(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), file.stat()):
                return descriptor
    except OSError:
        close(descriptor)
        raise
    close(descriptor)
    return None


def close(descriptor: int) -> None:
    """Close a file of `take`, which releases its lock."""
    if descriptor in _open:  # a forked child has closed it already
        _open.remove(descriptor)
        os.close(descriptor)


def unsupported(error: OSError) -> bool:
    """True if an error of `take` means that the file system has no locks."""
    return error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def busy(folder: Path, writers: Sequence[str], remedy: str) -> str:
    """The error message about a folder that an earlier run still writes.

    Args:
        folder: The folder.
        writers: The processes or jobs that write it.
        remedy: Command that ends them.
    """
    listed = "\n".join(f"  {writer}" for writer in writers)
    return (
        f"{folder}: an earlier run is still at work here, and a second one would write the same files:\n{listed}\n"
        f"wait until it has ended, or end it: {remedy}"
    )


def _file_of(folder: Path) -> Path:
    """The lock lies beside the folder, which may be deleted while the lock is held."""
    folder = Path(folder).absolute()
    return folder.with_name(f".{folder.name}.lock")


def _refusal(folder: Path, file: Path) -> str:
    try:
        one = json.loads(file.read_text())
        writer = f"process {one['pid']} on {one['host']}, since {one['since']}: {one['command']}"
    except (OSError, ValueError, KeyError, TypeError):  # it has the lock, but has not said yet who it is
        return busy(folder, ["a process that has just begun"], f"`fuser {file}` tells which it is")
    if one["host"] != socket.gethostname():
        return busy(folder, [writer], f"kill {one['pid']} on {one['host']}")
    try:
        os.kill(one["pid"], 0)
    except ProcessLookupError:
        return busy(folder, [f"programs that were started by {writer}; it has ended itself"], f"fuser --kill {file}")
    except PermissionError:
        pass  # somebody else's process, but it runs
    return busy(folder, [writer], f"kill {one['pid']}")


def _forget_locks() -> None:
    """A forked child shares its parent's locks, and must not keep them when the parent has ended."""
    for descriptor in list(_open):
        close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget_locks)
