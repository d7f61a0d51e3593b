"""Checkpoints of an unfinished training, from which a killed run resumes.

A kill may come between any two operations on files. So a checkpoint counts only with a mark, which lists its files and
is written last. The older checkpoints are deleted after the newer one has its mark, and lose their own marks first.
"""

import json
import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from cocal.store import write_text

COMPLETE = "complete"
"""Name of the file that is written last into a resumable checkpoint: its other files and their sizes, as JSON."""

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


def last_resumable(folder: Path) -> Path | None:
    """The newest complete trainer checkpoint in `folder`; incomplete ones, which a killed run left, are deleted.

    A checkpoint is complete if all files that its mark lists are there with their sizes.
    """
    found = {}
    for step, checkpoint in _checkpoints(folder):
        if _is_complete(checkpoint):
            found[step] = checkpoint
        else:
            logging.warning("%s: deleted, because it was not written or not deleted completely", checkpoint)
            _unmark(checkpoint)
            shutil.rmtree(checkpoint)
    return found[max(found)] if found else None


def complete(checkpoint: Path) -> None:
    """Mark a checkpoint whose files are all written, and then delete the other ones beside it.

    A checkpoint that cannot be deleted now is tried again with the next; the training goes on.
    """
    sizes = {str(file.relative_to(checkpoint)): file.stat().st_size for file in _files(checkpoint)}
    write_text(checkpoint / COMPLETE, json.dumps(sizes, indent=2) + "\n")
    for _, other in _checkpoints(checkpoint.parent):
        if other != checkpoint:
            _unmark(other)
            shutil.rmtree(other, ignore_errors=True)


def _checkpoints(folder: Path) -> Iterator[tuple[int, Path]]:
    """Step and path of each trainer checkpoint."""
    for entry in sorted(folder.glob("checkpoint-*")):
        if match := _CHECKPOINT.fullmatch(entry.name):
            yield int(match[1]), entry


def _files(checkpoint: Path) -> list[Path]:
    return sorted(file for file in checkpoint.rglob("*") if file.is_file() and file.name != COMPLETE)


def _is_complete(checkpoint: Path) -> bool:
    try:
        sizes = json.loads((checkpoint / COMPLETE).read_text(encoding="utf-8"))
        return bool(sizes) and all((checkpoint / name).stat().st_size == size for name, size in sizes.items())
    except (FileNotFoundError, NotADirectoryError, ValueError, AttributeError):  # no mark or file, or not ours
        return False


def _unmark(checkpoint: Path) -> None:
    (checkpoint / COMPLETE).unlink(missing_ok=True)
