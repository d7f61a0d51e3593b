"""The folder of a long job survives a kill, and its writes run while the job goes on."""

import threading

import pytest

from cocal.errors import ConfigError
from cocal.store import label_folder
from cocal.store.run_folder import RunFolder, WriteBehind


def test_a_folder_of_somebody_else_is_no_run(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").touch()
    for path in (tmp_path / "mine", tmp_path / "mine/thesis.tex"):
        with pytest.raises(ConfigError, match=f"{path}: is no working folder of an earlier run"):
            RunFolder(path, "digest")
    assert [p.name for p in tmp_path.rglob("*")] == ["mine", "thesis.tex"]


def test_a_run_that_was_killed_before_its_mark_begins_anew(tmp_path):
    (tmp_path / "run/.settings.digest.abcdefgh.partial").mkdir(parents=True)
    assert not RunFolder(tmp_path / "run", "digest").resumed
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["settings.digest"]


def test_publishing_replaces_stale_outputs_and_clears_the_run(tmp_path):
    run = RunFolder(tmp_path / "run", "a")
    (run.path / "folder").mkdir()
    (run.path / "folder" / "new").write_text("new")
    (run.path / "file").write_text("new")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/stale").touch()
    label_folder(tmp_path / "out", {"stage": "train"})
    run.publish({"folder": tmp_path / "out", "file": tmp_path / "file"})
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["new"]
    assert (tmp_path / "file").read_text() == "new"
    assert not run.path.exists()


def test_one_write_is_under_way_while_the_caller_goes_on():
    behind, held, written = WriteBehind(), threading.Event(), []
    behind.wait()
    behind.start(lambda: written.append(held.wait(60)))
    assert not written
    second = threading.Thread(target=behind.start, args=(lambda: written.append("second"),))
    second.start()
    second.join(0.2)
    assert second.is_alive(), "two steps would lie in memory"
    held.set()
    second.join(60)
    behind.wait()
    assert written == [True, "second"]


def test_an_error_of_a_write_reaches_the_caller_once():
    behind, written = WriteBehind(), []
    behind.start(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        behind.start(lambda: written.append("after a failed write"))
    behind.wait()
    assert not written
