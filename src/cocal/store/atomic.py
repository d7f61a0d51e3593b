"""Writing so that a reader finds either the whole file or none."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(target: str | Path) -> Iterator[Path]:
    """A path to write a file or folder to; it takes the place of `target` when the block ends without error.

    The temporary path lies beside the target and starts with a dot, so that a killed process leaves nothing
    that a later rule would take for a result.
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
    """Write a text file atomically, UTF-8, line ends as given."""
    with atomic_path(target) as partial:
        partial.write_bytes(text.encode("utf-8"))
