"""A kill at any operation on files: what is left is whole, is recognised, or is swept by the next run."""

import errno
import fcntl
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from cocal.runtime import lock
from cocal.store import atomic_path, label_folder, write_text
from cocal.store.run_folder import RunFolder
from kills import killed_at_each_operation

WORK = {"table", "store/a", "one", "two", "three"}
"""Files of a run. A folder's files are deleted in no certain order, so there are several beside its mark."""


def _run_folder(path: Path, digest: str) -> RunFolder:
    """A run folder with work in it, that no process holds."""
    run = RunFolder(path, digest)
    for name in WORK:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(digest)
    lock.release(path)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("end", ["published", "emptied for other settings"])
def test_a_run_never_resumes_from_half_a_folder(tmp_path, end):
    """A kill while the folder is deleted: the next run of the old settings finds all of the work or none."""
    path, kept = tmp_path / "run", []

    def ended():
        if end == "published":
            RunFolder(path, "old").publish({"table": tmp_path / "out/table", "store": tmp_path / "out/store"})
        else:
            RunFolder(path, "new")

    _run_folder(path, "old")
    for _ in killed_at_each_operation(ended):
        again = RunFolder(path, "old")
        files = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()} - {"settings.digest"}
        assert files == (WORK if again.resumed else set())
        kept.append(again.resumed)
        lock.release(path)
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        _run_folder(path, "old")
    assert {*kept} == {True, False}
    assert kept == sorted(kept, reverse=True)
    assert path.exists() == (end != "published")
    assert not list(tmp_path.glob(".run.discarded"))
    if end == "published":
        assert [file.read_text() for file in sorted(tmp_path.glob("out/**/*")) if file.is_file()] == ["old"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("folder", [False, True], ids=["file", "folder"])
def test_the_next_write_sweeps_what_a_killed_one_has_left(tmp_path, folder):
    def write(text):
        with atomic_path(tmp_path / "target") as partial:
            if folder:
                partial.mkdir()
                label_folder(partial, {"stage": "backbone"})
            (partial / "inner" if folder else partial).write_text(text)

    found = []
    write("old")
    for _ in killed_at_each_operation(lambda: write("new")):
        found += [file.read_text() for file in tmp_path.glob("target" + "/inner" * folder)]
        write("old")
        assert [entry.name for entry in tmp_path.iterdir()] == ["target"]
    assert found == sorted(found, reverse=True)
    assert {*found} == {"old", "new"}


def test_the_scratch_folder_of_a_living_process_is_not_swept(tmp_path):
    with atomic_path(tmp_path / "target") as partial:
        partial.write_text("slow")
        write_text(tmp_path / "target", "fast")
        assert partial.exists()
    assert (tmp_path / "target").read_text() == "slow"


def test_only_scratch_folders_of_the_same_target_are_swept(tmp_path):
    """A download that can be resumed, and the scratch folders of other targets."""
    (tmp_path / ".target.partial").touch()
    for name in (".target.b.abcdefgh.partial", ".other.abcdefgh.partial", ".target.abcdefgh.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").touch()
    write_text(tmp_path / "target", "new")
    left = {".target.partial", ".target.b.abcdefgh.partial", ".other.abcdefgh.partial", "target"}
    assert {entry.name for entry in tmp_path.iterdir()} == left


def test_nothing_is_swept_where_there_are_no_locks(tmp_path, monkeypatch):
    (tmp_path / ".target.abcdefgh.partial").mkdir()
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))
    write_text(tmp_path / "target", "new")
    assert (tmp_path / "target").read_text() == "new"
    assert (tmp_path / ".target.abcdefgh.partial").exists()
