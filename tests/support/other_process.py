"""Another process that is at work in a folder."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOLD = """
import sys
from pathlib import Path
from cocal.runtime import lock

lock.hold(Path(sys.argv[1]))
{between}
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def writer_of(folder: Path, between: str = "") -> Iterator[subprocess.Popen]:
    """A process that holds the lock of a folder until the block ends, when it is killed.

    Args:
        between: Code that it runs after it has taken the lock; what this prints is left to be read.
    """
    command = [sys.executable, "-c", _HOLD.format(between=between), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            if not between:
                assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()
