"""The working folder of a long job: its files survive a kill, and become the job's outputs at the end.

`WriteBehind` writes them while the job goes on.
"""

import logging
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

from cocal.errors import ConfigError
from cocal.runtime import lock
from cocal.runtime.numerics import active
from cocal.store.atomic import atomic_path, write_text
from cocal.store.damage import RUN_MARK

_EMPTY = {RUN_MARK, "zarr.json"}
"""Files of a folder that hold no work."""
_open: "list[RunFolder]" = []
"""The folders in which this process works."""


class RunFolder:
    """Files of an unfinished job, outside the outputs that a workflow manager deletes when a job fails.

    One process at a time has the folder: until its files are published, or until it ends. Of a training's processes,
    only the main one opens it. Raises a BusyError if another process, such as a job whose Snakemake was killed, has the
    folder, and a ConfigError if the path is a file, or a folder of somebody else's files.

    Args:
        path: The folder.
        settings_digest: Digest of everything that the files depend on. A folder with another digest is emptied, so that
            no run resumes from files of other settings; nor does one from files of other numerics.
    """

    def __init__(self, path: str | Path, settings_digest: str):
        self.path = Path(path)
        self.settings_digest = settings_digest
        self._discarded = self.path.with_name(f".{self.path.name}.discarded")
        mark, made_with = self.path / RUN_MARK, f"{settings_digest} {active()}"
        lock.hold(self.path)
        if not mark.exists() and _has_content(self.path):
            lock.release(self.path)
            raise ConfigError(
                f"{self.path}: is no working folder of an earlier run, and what is there would be deleted; name "
                "another, or move it"
            )
        _open.append(self)
        shutil.rmtree(self._discarded, ignore_errors=True)
        if self.path.exists() and (not mark.exists() or mark.read_bytes() != made_with.encode()):
            logging.warning("%s: deleted, because it was made with other settings", self.path)
            self._discard()
        self.resumed = mark.exists()
        if not self.resumed:
            self.path.mkdir(parents=True, exist_ok=True)
            write_text(mark, made_with)

    def publish(self, outputs: Mapping[str, Path]) -> None:
        """Put each named file or folder of the run at the path of its output, then delete the run folder.

        Files are hard-linked (copied across file systems), so that a kill on the way leaves the run folder whole and
        the files can be published again. Raises a ContractError if an output is somebody's own
        (`cocal.store.atomic.atomic_path`).
        """
        for name, target in outputs.items():
            source = self.path / name
            with atomic_path(target) as partial:
                if source.is_dir():
                    shutil.copytree(source, partial, copy_function=link_file)
                else:
                    link_file(source, partial)
        self._discard()
        lock.release(self.path)
        _open.remove(self)

    def _discard(self) -> None:
        """Delete the folder. It loses its name first: a kill must not leave half a folder from which a run resumes."""
        self.path.rename(self._discarded)
        shutil.rmtree(self._discarded)


class WriteBehind:
    """Runs writes one after the other in a thread of its own, so that the work does not wait for a disk.

    At most one write is under way, so no more than one step's results wait in memory. An error of a write is raised
    once, by the next call; what has not been waited for must not be taken as written. As a context manager it waits at
    the end, after an error too.
    """

    def __init__(self):
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="write-behind")
        self._under_way: Future | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def start(self, write: Callable[[], None]) -> None:
        """Start a write as soon as the one before it has ended."""
        self.wait()
        self._under_way = self._thread.submit(write)

    def wait(self) -> None:
        """Wait until all that was started is written."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()


def leave_refused() -> bool:
    """Release the folders in which this process has worked, after an error that its user has to mend, and say whether
    one of them keeps work for the next run; a folder without finished work is deleted."""
    kept = False
    while _open:
        run = _open.pop()
        files = [file for file in run.path.rglob("*") if file.is_file() and file.name not in _EMPTY]
        if run.path.exists() and not any(file.stat().st_size for file in files):
            run._discard()
        kept = kept or run.path.exists()
        lock.release(run.path)
    return kept


def _has_content(path: Path) -> bool:
    """True of a file, and of a folder with more than the half-written mark that a killed process has left."""
    return path.exists() and not (
        path.is_dir() and all(re.fullmatch(rf"\.{RUN_MARK}\.\w+\.partial", entry.name) for entry in path.iterdir())
    )


def file_states(files: Iterable[Path]) -> dict[str, tuple[int, int]]:
    """Size and modification time of each file, for a digest that tells one set of large inputs from another."""
    return {str(file): (file.stat().st_size, file.stat().st_mtime_ns) for file in files}


def link_file(source: str | Path, target: str | Path) -> None:
    """Hard-link a file to a second path, or copy it across file systems."""
    try:
        Path(target).hardlink_to(Path(source).resolve())
    except OSError:
        shutil.copy2(source, target)
