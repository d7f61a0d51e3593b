"""Kills a function at each of its operations on files, in forked children, as SIGKILL or a lost node would."""

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator

_OPERATIONS = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_KILLED = 137


def killed_at_each_operation(operation: Callable[[], object], limit: int = 1000) -> Iterator[int]:
    """Run `operation` in a new child again and again; the k-th child dies just before its k-th operation on files.

    An operation makes, opens for writing, renames or deletes a file or folder; what a library written in C does with
    files is not seen, and cutting off its files is for tests of their own. The iterator yields after each death,
    with the number of operations that were done, and ends with the child that lived to the end. The caller restores
    the files before it goes on.
    """
    for done in range(limit):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn of forks beside threads
            child = os.fork()
        if not child:
            _run(operation, done)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) in (0, _KILLED), "the operation failed; see its traceback above"
        if os.waitstatus_to_exitcode(status) == 0:
            return
        yield done
    raise AssertionError(f"more than {limit} operations")


def _run(operation: Callable[[], object], allowed: int) -> None:
    done = 0

    def count(event: str, arguments: tuple) -> None:
        nonlocal done
        if event in _OPERATIONS or (event == "open" and arguments[2] & _WRITES):
            if done == allowed:
                os._exit(_KILLED)
            done += 1

    try:
        sys.addaudithook(count)
        operation()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
