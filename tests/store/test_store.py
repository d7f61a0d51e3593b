"""Files: atomic, checked, labelled; a run folder survives a kill."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from safetensors.numpy import save_file

from cocal.errors import ConfigError, ContractError
from cocal.store import (
    atomic_path,
    digest,
    label_folder,
    provenance,
    read_dataset,
    read_frame,
    read_provenance,
    write_dataset,
    write_frame,
    write_text,
)
from cocal.store.contracts import PREDICTIONS, QUESTIONS, RESPONSES
from cocal.store.rows import numbered
from cocal.store.run_folder import RunFolder
from evaluated_study import responses


@pytest.fixture
def predictions() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "backbone": "tiny",
            "algorithm": "grpo",
            "step": 60,
            "dataset": "set",
            "question_id": ["q1", "q2", "q3"],
            "response_id": [0, 1, 2],
            "method": "verbal",
            "seed": -1,
            "source_step": -1,
            "validation_step": -1,
            "layer": -1,
            "pooling": "",
            "confidence": [0.25, np.nan, 1.0],
            "valid": [True, False, True],
            "correct": [True, False, True],
            "truncated": [False, False, True],
            "answered": [True, True, False],
            "decided": [True, False, True],
            "exact_match": pd.array([True, None, False], dtype="boolean"),
            "p_true_mass": [np.nan, 0.5, np.nan],
        }
    )


def test_equal_settings_have_equal_digests():
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": (1, 2), "a": 1})
    assert len({digest(one) for one in ({"a": 1}, {"a": 2}, {"b": 1}, [1, 2], [2, 1])}) == 5


def test_a_correct_response_has_a_group_accuracy():
    frame = responses()
    RESPONSES.check(frame, "mine")
    frame.loc[frame.index[frame["correct"]][0], "group_accuracy"] = 0.0
    with pytest.raises(ContractError, match=r"a correct response needs a group accuracy above zero, broken in 1 row"):
        RESPONSES.check(frame, "mine")


@pytest.mark.parametrize(("column", "what"), [("response_ids", "tokens"), ("logprobs", "values")])
def test_a_response_has_as_many_tokens_and_log_probabilities_as_its_length_says(column, what):
    frame = responses()
    frame.at[1, column] = np.append(frame.at[1, column], frame.at[1, column][-1])
    with pytest.raises(ContractError, match=rf"x: {column} must hold `length` {what}, broken in 1 row\(s\), first 1;"):
        RESPONSES.check(frame, "x")


@pytest.mark.parametrize("confidence", [np.nan, 0.5])
def test_a_row_has_a_confidence_if_and_only_if_it_is_valid(predictions, confidence):
    frame = predictions.assign(confidence=confidence, valid=np.isnan(confidence))
    with pytest.raises(ContractError, match=r"a valid row needs a confidence and an invalid one must have none"):
        PREDICTIONS.check(frame, "x")


def test_round_trip_and_provenance(tmp_path, predictions):
    path = tmp_path / "p.parquet"
    write_frame(path, predictions, PREDICTIONS, provenance("predictions", {"a": 1}, study="s", step=None))
    pd.testing.assert_frame_equal(read_frame(path, PREDICTIONS), predictions, check_dtype=False)
    found = read_provenance(path)
    assert found["digest"] == digest({"a": 1})
    assert found["study"] == "s"
    assert "step" not in found
    assert "torch" in json.loads(found["versions"])


def test_equal_tables_give_equal_bytes(tmp_path, predictions):
    for name in ("a", "b"):
        write_frame(tmp_path / name, predictions, PREDICTIONS, provenance("predictions", {}))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda f: f.drop(columns="seed"), ["column 'seed' is missing"]),
        (lambda f: f.assign(confidence=[0.5, np.nan, np.nan]), ["invalid one must have none", "first 2"]),
        (lambda f: f.assign(confidence=[0.5, np.nan, 1.5]), ["'confidence'", "row(s) 2", "1.5"]),
        (lambda f: f.assign(question_id=["a", None, "c"]), ["'question_id'", "row(s) 1"]),
        (lambda f: f.assign(response_id=0), ["must be unique", "first 1, 2"]),
        (lambda f: f.assign(correct=["yes", "no", "no"]), ["'correct'"]),
        (lambda f: f.iloc[:0], ["no rows"]),
    ],
)
def test_broken_tables_are_refused_and_nothing_is_written(tmp_path, predictions, spoil, named):
    path = tmp_path / "p.parquet"
    with pytest.raises(ContractError) as caught:
        write_frame(path, spoil(predictions), PREDICTIONS, {})
    for part in [str(path), *named]:
        assert part in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_broken_files_are_refused_on_reading(tmp_path, predictions):
    path = tmp_path / "p.parquet"
    predictions.assign(confidence=2.0, valid=True).to_parquet(path)  # somebody else's file
    with pytest.raises(ContractError, match=r"p\.parquet: column 'confidence'"):
        read_frame(path, PREDICTIONS)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ContractError, match="not a readable Parquet file"):
        read_frame(path, PREDICTIONS)
    with pytest.raises(ContractError, match="no such file"):
        read_frame(tmp_path / "none.parquet", QUESTIONS)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ContractError, match=r"holds no \.parquet file"):
        read_frame((tmp_path / "empty"), QUESTIONS)


def test_a_folder_of_tables_is_read_in_order(tmp_path, predictions):
    for step in (2, 10, 1):
        rows = predictions.assign(step=step)
        write_frame(tmp_path / f"step-{step:05d}.parquet", rows, PREDICTIONS, {})
    assert read_frame(tmp_path, PREDICTIONS, ["step"])["step"].tolist() == [1] * 3 + [2] * 3 + [10] * 3


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    target = tmp_path / "file"
    target.write_text("old")

    def interrupted():
        with atomic_path(target) as partial:
            partial.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_block_that_writes_nothing_leaves_the_old_file(tmp_path):
    target = tmp_path / "table"
    target.write_text("old")
    with pytest.raises(FileNotFoundError, match="table: nothing was written"), atomic_path(target):
        pass
    assert target.read_text() == "old"


def test_files_with_one_number_are_not_mixed(tmp_path):
    for name in ("step-1.pt", "step-01.pt", "notes.txt"):
        (tmp_path / name).touch()
    with pytest.raises(ContractError, match=r"step-1\.pt: the file has the same number as step-01\.pt"):
        numbered(tmp_path, r"step-(\d+)\.pt", "step-1.pt")


def _write_folder(target, content, attributes):
    with atomic_path(target) as partial:
        partial.mkdir()
        (partial / content).touch()
        label_folder(partial, attributes)


@pytest.mark.parametrize("linked", [False, True], ids=["a folder", "a link to a larger disk"])
def test_a_folder_replaces_an_earlier_one(tmp_path, linked):
    target = tmp_path / "folder"
    if linked:
        (tmp_path / "disk").mkdir()
        target.symlink_to(tmp_path / "disk")
    for content in ("one", "two"):
        _write_folder(target, content, {"stage": "backbone"})
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
        (lambda: _write_folder(tmp_path / "mine", "new", {}), "mine: the folder holds files that CoCal has not made"),
        (lambda: _write_folder(tmp_path / "file", "new", {}), "file: is a file, which a folder would replace"),
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


def test_datasets_round_trip(tmp_path):
    data = xr.Dataset({"value": ("metric", [1.0, np.nan])}, coords={"metric": ["ece", "auroc"]})
    write_dataset(tmp_path / "cube.nc", data, {"digest": "x"})
    found = read_dataset(tmp_path / "cube.nc")
    xr.testing.assert_equal(found, data)
    assert found.attrs["digest"] == "x"
    (tmp_path / "cube.nc").write_bytes(b"junk")
    with pytest.raises(ContractError, match="not a readable NetCDF file"):
        read_dataset(tmp_path / "cube.nc")


def test_run_folder_resumes_only_its_own_settings(tmp_path):
    first = RunFolder(tmp_path / "run", "a")
    assert not first.resumed
    (first.path / "done.txt").write_text("work")
    again = RunFolder(tmp_path / "run", "a")
    assert again.resumed
    assert (again.path / "done.txt").exists()
    other = RunFolder(tmp_path / "run", "b")
    assert not other.resumed
    assert not (other.path / "done.txt").exists()


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
    _write_folder(tmp_path / "out", "stale", {"stage": "train"})
    run.publish({"folder": tmp_path / "out", "file": tmp_path / "file"})
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["new"]
    assert (tmp_path / "file").read_text() == "new"
    assert not run.path.exists()
