"""Checkpoints of an unfinished training, from which a killed run resumes."""

import logging
import re
import shutil
from pathlib import Path

COMPLETE = "complete"
"""Name of the file that is written last into a resumable checkpoint."""

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


def last_resumable(folder: Path) -> Path | None:
    """The newest complete trainer checkpoint in `folder`; incomplete ones, which a killed run left, are deleted."""
    found = {}
    for entry in folder.glob("checkpoint-*"):
        match = _CHECKPOINT.fullmatch(entry.name)
        if match is None:
            continue
        if (entry / COMPLETE).exists():
            found[int(match[1])] = entry
        else:
            logging.warning("%s: deleted, because it was not written completely", entry)
            shutil.rmtree(entry)
    return found[max(found)] if found else None
