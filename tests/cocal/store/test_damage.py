"""Files that are missing or damaged: only results are advised to be deleted, a user's own files never are."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cocal.companion.companions import load_companions
from cocal.companion.spec import read_spec
from cocal.errors import ContractError
from cocal.features.store import open_features
from cocal.models.loading import load_policy
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal.store.damage import is_result
from cocal.store.parquet import damaged
from cocal_study.planning.costs import Cost, read_cost
from cocal_study.questions.registry import File, Source
from cocal_study.questions.sources import stored
from cocal_study.store.datasets import read_dataset

OWN = "it is a file of your own"


def _cached(path: Path):
    """The damaged file as one of a data set's source, in the cache's layout."""
    source = Source(host="github", repository="o/r", revision="0" * 40, files=[File(path="a.json", sha256="0" * 64)])
    place = path.parent / source.place(source.files[0])
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, place)
    return stored(source, source.files[0], path.parent)


READERS: dict[str, Callable[[Path], object]] = {
    "table.parquet": lambda path: read_frame(path, RESPONSES),
    "cube.nc": read_dataset,
    "cost.json": lambda path: read_cost(path, Cost),
    "companions.safetensors": load_companions,
    "cached.json": _cached,
}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _message(read: Callable[[Path], object], path: Path) -> str:
    with pytest.raises(ContractError) as caught:
        read(path)
    return str(caught.value)


@pytest.mark.parametrize("name", list(READERS))
def test_only_results_are_advised_to_be_deleted(folder, name):
    for place, result in (("results/made", True), ("mine", False), ("mine/results", False)):
        path = folder / place / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"neither of these")
        for written in (path, path.relative_to(folder)):
            text = _message(READERS[name], written)
            assert ("delete it and r" in text) == result, text
            assert (OWN in text) == (not result), text
            assert "delete" not in text or result


def test_a_damaged_folder_likewise(folder):
    for read, kind in ((open_features, "feature store"), (load_policy, "complete checkpoint")):
        for place, result in (("results", True), ("mine", False)):
            path = folder / place / kind.replace(" ", "-")
            path.mkdir(parents=True)
            (path / "zarr.json").write_text("{")
            text = _message(read, path)
            assert kind in text
            assert (("delete it and rerun" in text), (OWN in text)) == (result, not result), text


def test_a_missing_file_is_made_by_a_rule_only_below_results(folder):
    readers = (lambda p: read_frame(p, RESPONSES), read_dataset, open_features, load_companions, read_spec)
    for read in readers:
        assert "rerun the rule that makes it" in _message(read, Path("results/none"))
        text = _message(read, Path("mine/none"))
        assert f"{OWN}: check its path" in text
        assert "rerun" not in text


def test_results_are_those_of_this_folder_whatever_their_path_looks_like(folder):
    (folder / "results/a").mkdir(parents=True)
    (folder / "mine.parquet").touch()
    (folder / "results/a/link.parquet").symlink_to(folder / "mine.parquet")
    assert is_result("results/a/b.parquet")
    assert is_result(folder / "results/b")
    assert not is_result("results")
    assert not is_result("results/../mine.parquet")
    assert not is_result("results/a/link.parquet")
    assert not is_result("other/results/b")


def test_an_error_of_the_system_is_no_damage_of_the_file():
    """Nobody shall delete a table because a folder may not be read; pyarrow's errors about damage have no number."""
    with pytest.raises(PermissionError):
        damaged("step-00007.parquet", PermissionError(13, "Permission denied"))
    assert "not a readable Parquet file (Corrupt snappy" in str(damaged("a.parquet", OSError("Corrupt snappy data")))
