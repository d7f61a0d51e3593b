"""Checkpoints of an unfinished training, from which a killed run resumes.

A kill may come between any two operations on files. Therefore a checkpoint counts only with the list of its files and
their digests (`cocal.store.folders.label_folder`), which is written last. The one before it stays until the next is
due, in case the newest is damaged, so there are never more than two.

Digests cost one more pass over the files: a checkpoint of 8 billion weights with its optimiser (98 GB) is read in about
a minute, once after it was written, mostly from memory and while the training goes on, and once before a run resumes.
"""

import logging
import re
import shutil
from pathlib import Path

from cocal.errors import ContractError
from cocal.store.folders import check_folder, listed_files
from cocal.store.origin import PROVENANCE

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


def last_resumable(folder: Path) -> Path | None:
    """The newest whole trainer checkpoint in `folder`; newer ones, which are damaged or incomplete, are deleted."""
    for checkpoint in _newest_first(folder):
        try:
            check_folder(checkpoint)
            if listed_files(checkpoint):
                return checkpoint
        except (ContractError, OSError, KeyError, TypeError):  # no list or file, or not ours
            pass
        logging.warning("%s: deleted, because it is damaged, or was not written or deleted completely", checkpoint)
        _delete(checkpoint)
    return None


def make_room(folder: Path) -> None:
    """Delete all checkpoints but the newest one that is marked, before another one is written.

    A checkpoint that cannot be deleted now is tried again before the next; the training goes on.
    """
    checkpoints = _newest_first(folder)
    kept = next((checkpoint for checkpoint in checkpoints if (checkpoint / PROVENANCE).exists()), None)
    for checkpoint in checkpoints:
        if checkpoint != kept:
            _delete(checkpoint, ignore_errors=True)


def _newest_first(folder: Path) -> list[Path]:
    by_step = {int(match[1]): entry for entry in folder.glob("*") if (match := _CHECKPOINT.fullmatch(entry.name))}
    return [by_step[step] for step in sorted(by_step, reverse=True)]


def _delete(checkpoint: Path, ignore_errors: bool = False) -> None:
    (checkpoint / PROVENANCE).unlink(missing_ok=True)  # first: half a checkpoint must not count
    shutil.rmtree(checkpoint, ignore_errors=ignore_errors)
