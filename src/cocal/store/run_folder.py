"""A working folder of a long job: what is in it survives a kill, and becomes the job's outputs at the end."""

import logging
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from cocal.store.atomic import write_text

_MARK = "settings.digest"


class RunFolder:
    """Files of an unfinished job, outside the outputs that a workflow manager deletes when a job fails.

    Args:
        path: the folder.
        settings_digest: digest of everything the files depend on. A folder of another digest is emptied:
            nothing computed under other settings is ever resumed.
    """

    def __init__(self, path: str | Path, settings_digest: str):
        self.path = Path(path)
        self.settings_digest = settings_digest
        mark = self.path / _MARK
        if self.path.exists() and (not mark.exists() or mark.read_text() != settings_digest):
            logging.warning("%s: made with other settings; starting afresh", self.path)
            shutil.rmtree(self.path)
        self.resumed = mark.exists()
        if not self.resumed:
            self.path.mkdir(parents=True, exist_ok=True)
            write_text(mark, settings_digest)

    def publish(self, outputs: Mapping[str, Path]) -> None:
        """Give each file or folder of the run (by name) its place as an output, then remove the run.

        Contents are hard-linked (copied across file systems): a kill on the way leaves the run whole, and
        publishing again mends it.
        """
        for name, target in outputs.items():
            source = self.path / name
            if target.is_dir():
                shutil.rmtree(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, copy_function=link_file)
            else:
                target.unlink(missing_ok=True)
                link_file(source, target)
        shutil.rmtree(self.path)


def file_states(files: Iterable[Path]) -> dict[str, tuple[int, int]]:
    """Size and time of the last change of each file: tells one set of large inputs from another for a run's digest."""
    return {str(file): (file.stat().st_size, file.stat().st_mtime_ns) for file in files}


def link_file(source: str | Path, target: str | Path) -> None:
    """Give a file a second place: a hard link, or a copy across file systems."""
    try:
        Path(target).hardlink_to(Path(source).resolve())
    except OSError:
        shutil.copy2(source, target)
