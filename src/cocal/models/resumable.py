"""Checkpoints of an unfinished training, from which a killed run resumes.

A kill may come between any two operations on files. So a checkpoint counts only with a mark, which lists its files with
their digests and is written last. The one before it stays until the next is due, for the case that the newest is
damaged; so there are never more than two, which is what their rotation needs anyway.

Digests cost one more pass over the files: a checkpoint of 8 billion weights with its optimiser (98 GB) is read in 30 to
60 seconds, once after it was written, mostly from memory and while the training goes on, and once before a run resumes.
"""

import json
import logging
import re
import shutil
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cocal.store import write_text
from cocal.store.provenance import file_digest

COMPLETE = "complete"
"""Name of the file that is written last into a resumable checkpoint: the SHA-256 of each other file, as JSON."""

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


def last_resumable(folder: Path) -> Path | None:
    """The newest whole trainer checkpoint in `folder`; newer ones, which are damaged or incomplete, are deleted.

    A checkpoint is whole if all files that its mark lists are there and have not changed since.
    """
    for checkpoint in _newest_first(folder):
        if _is_whole(checkpoint):
            return checkpoint
        logging.warning("%s: deleted, because it is damaged, or was not written or deleted completely", checkpoint)
        _delete(checkpoint)
    return None


def complete(checkpoint: Path) -> None:
    """Mark a checkpoint whose files are all written."""
    files = (str(file.relative_to(checkpoint)) for file in sorted(checkpoint.rglob("*")) if file.is_file())
    names = [name for name in files if name != COMPLETE]
    write_text(checkpoint / COMPLETE, json.dumps(_digests(checkpoint, names), indent=2) + "\n")


def make_room(folder: Path) -> None:
    """Delete all checkpoints but the newest one with a mark, before another one is written.

    A checkpoint that cannot be deleted now is tried again before the next; the training goes on.
    """
    found = _newest_first(folder)
    kept = next((checkpoint for checkpoint in found if (checkpoint / COMPLETE).exists()), None)
    for checkpoint in found:
        if checkpoint != kept:
            _delete(checkpoint, ignore_errors=True)


def _newest_first(folder: Path) -> list[Path]:
    found = {int(match[1]): entry for entry in folder.glob("*") if (match := _CHECKPOINT.fullmatch(entry.name))}
    return [found[step] for step in sorted(found, reverse=True)]


def _digests(checkpoint: Path, names: Collection[str]) -> dict[str, str]:
    with ThreadPoolExecutor() as readers:  # large files are read side by side
        return dict(zip(names, readers.map(lambda name: file_digest(checkpoint / name), names), strict=True))


def _is_whole(checkpoint: Path) -> bool:
    try:
        listed = json.loads((checkpoint / COMPLETE).read_text(encoding="utf-8"))
        return bool(listed) and _digests(checkpoint, listed) == listed
    except (OSError, ValueError, TypeError):  # no mark or file, or not ours
        return False


def _delete(checkpoint: Path, ignore_errors: bool = False) -> None:
    (checkpoint / COMPLETE).unlink(missing_ok=True)  # first: half a checkpoint must not count
    shutil.rmtree(checkpoint, ignore_errors=ignore_errors)
