"""Checkpoints of an unfinished training: which one a killed run goes on from."""

import logging
import re
import shutil
from pathlib import Path

COMPLETE = "complete"
"""File that is written last into a resumable checkpoint."""

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


def last_resumable(folder: Path) -> Path | None:
    """The newest complete trainer checkpoint in `folder`; incomplete ones, cut off by a kill, are deleted."""
    found = {}
    for entry in folder.glob("checkpoint-*"):
        match = _CHECKPOINT.fullmatch(entry.name)
        if match is None:
            continue
        if (entry / COMPLETE).exists():
            found[int(match[1])] = entry
        else:
            logging.warning("%s: cut off while it was written; deleted", entry)
            shutil.rmtree(entry)
    return found[max(found)] if found else None
