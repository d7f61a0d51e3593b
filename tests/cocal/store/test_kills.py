"""A kill at any operation on files: what is left is whole, or is recognised."""

import shutil
from pathlib import Path

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
def test_a_killed_write_leaves_the_whole_of_the_old_or_of_the_new(tmp_path, folder):
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
        assert {entry.name for entry in tmp_path.glob("[!.]*")} == {"target"}
    assert found == sorted(found, reverse=True)
    assert {*found} == {"old", "new"}


def test_two_writers_of_one_file_do_not_mix(tmp_path):
    with atomic_path(tmp_path / "target") as partial:
        partial.write_text("slow")
        write_text(tmp_path / "target", "fast")
    assert (tmp_path / "target").read_text() == "slow"
    assert [entry.name for entry in tmp_path.iterdir()] == ["target"]
