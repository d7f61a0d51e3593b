"""A reader finds the whole file or none, and nothing is replaced that somebody else has made."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from cocal.errors import ContractError
from cocal.store import atomic_path, label_folder, write_text
from cocal.store.rows import numbered
from cocal.store.run_folder import RunFolder


def write_folder(target, content, attributes):
    with atomic_path(target) as partial:
        partial.mkdir()
        (partial / content).touch()
        label_folder(partial, attributes)


@pytest.mark.parametrize("interrupted", [True, False], ids=["interrupted", "nothing was written"])
def test_a_write_that_fails_leaves_the_old_file(tmp_path, interrupted):
    target = tmp_path / "table"
    target.write_text("old")

    def write():
        with atomic_path(target) as partial:
            if interrupted:
                partial.write_text("half")
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt if interrupted else FileNotFoundError):
        write()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("linked", [False, True], ids=["a folder", "a link to a larger disk"])
def test_a_folder_replaces_an_earlier_one(tmp_path, linked):
    target = tmp_path / "folder"
    if linked:
        (tmp_path / "disk").mkdir()
        target.symlink_to(tmp_path / "disk")
    for content in ("one", "two"):
        write_folder(target, content, {"stage": "backbone"})
    assert {p.name for p in target.iterdir()} == {"two", "provenance.json"}
    assert target.is_symlink() == linked


def test_neither_a_file_nor_a_folder_replaces_what_is_somebody_s_own(tmp_path):
    (tmp_path / "mine/inner").mkdir(parents=True)
    (tmp_path / "mine/inner/thesis.tex").write_text("years")
    (tmp_path / "file").write_text("text")
    run = RunFolder(tmp_path / "run", "a")
    (run.path / "table").write_text("new")
    (run.path / "store").mkdir()
    for write, message in (
        (lambda: write_text(tmp_path / "mine", "new"), "mine: is a folder, which a file would replace"),
        (lambda: run.publish({"table": tmp_path / "mine"}), "mine: is a folder, which a file would replace"),
        (lambda: run.publish({"store": tmp_path / "mine"}), "mine: the folder holds files that CoCal has not made"),
        (lambda: write_folder(tmp_path / "mine", "new", {}), "mine: the folder holds files that CoCal has not made"),
        (lambda: write_folder(tmp_path / "file", "new", {}), "file: is a file, which a folder would replace"),
    ):
        with pytest.raises(ContractError, match=message):
            write()
    assert (tmp_path / "mine/inner/thesis.tex").read_text() == "years"
    assert (tmp_path / "file").read_text() == "text"
    assert (run.path / "table").exists()
    assert {p.name for p in tmp_path.iterdir()} == {"mine", "file", "run", ".run.lock"}


def test_a_labelled_folder_can_be_read_by_all_who_may_read_new_files(tmp_path):
    """Files of safetensors are their owner's alone, as it writes them."""
    save_file({"a": np.zeros(3)}, tmp_path / "model.safetensors")
    (tmp_path / "usual").touch()
    label_folder(tmp_path, {})
    assert (tmp_path / "model.safetensors").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_files_with_one_number_are_not_mixed(tmp_path):
    for name in ("step-1.pt", "step-01.pt", "notes.txt"):
        (tmp_path / name).touch()
    with pytest.raises(ContractError, match=r"step-1\.pt: the file has the same number as step-01\.pt"):
        numbered(tmp_path, r"step-(\d+)\.pt", "step-1.pt")
