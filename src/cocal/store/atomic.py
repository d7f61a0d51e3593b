"""Atomic writing: a reader finds either the whole file or none."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(target: str | Path) -> Iterator[Path]:
    """A temporary path for a file or folder, which replaces `target` when the block ends without an error.

    It lies beside the target in a folder whose name starts with a dot, so that a killed process leaves nothing that a
    later rule would take for a result.
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    try:
        partial = scratch / target.name
        yield partial
        if not partial.exists():
            raise FileNotFoundError(f"{target}: nothing was written")
        if target.is_dir() and not target.is_symlink():
            target.rename(scratch / "replaced")  # a folder cannot be renamed over another
        partial.replace(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_text(target: str | Path, text: str) -> None:
    """Write a text file atomically in UTF-8 and keep its line ends as they are."""
    with atomic_path(target) as partial:
        partial.write_bytes(text.encode("utf-8"))
