"""Identities and contents of products: provenance is no content, and every bit of a number is."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
from safetensors.numpy import save_file

from cocal.errors import ContractError
from cocal.features.store import create_features
from cocal_study.provenance.identity import content_digest, identity
from cocal_study.store.datasets import write_dataset
from micro import own_copy


def _table(path, value, **metadata):
    content = pa.table({"a": pa.array([0.5, value]), "b": [[1], None]}).replace_schema_metadata(metadata)
    pq.write_table(content, path)


def _arrays(path, value, **attributes):
    write_dataset(path, xr.Dataset({"a": ("x", np.array([0.5, value]))}), attributes)


def _tensors(path, value, **metadata):
    save_file({"a": np.array([0.5, value])}, path, metadata=metadata)


@pytest.mark.parametrize(("write", "suffix"), [(_table, "parquet"), (_arrays, "nc"), (_tensors, "safetensors")])
def test_provenance_is_no_content_and_every_bit_is(tmp_path, write, suffix):
    paths = [tmp_path / f"{name}.{suffix}" for name in ("one", "same", "other")]
    for path, value, maker in zip(paths, (1.0, 1.0, np.nextafter(1.0, 2.0)), "121", strict=True):
        write(path, value, made_by=maker)
    one, same, other = map(content_digest, paths)
    assert one == same != other
    assert len(set(map(identity, paths))) == 3


def test_names_dimensions_and_types_are_content(tmp_path):
    """The values are the same, and as many different files of each kind are made as their formats tell apart."""
    found, files = [], [tmp_path / f"file.{suffix}" for suffix in ("parquet", "nc", "safetensors")]
    parts = ("a", "x", "int32"), ("b", "x", "int32"), ("a", "y", "int32"), ("a", "x", "int64"), ("a", "x", "float32")
    for name, dimension, kind in parts:
        values = np.zeros(2, dtype=kind)
        pq.write_table(pa.table({name: values}), files[0])
        write_dataset(files[1], xr.Dataset({name: (dimension, values)}), {})
        save_file({name: values}, files[2])
        found.append([content_digest(file) for file in files])
    assert [len(set(of_kind)) for of_kind in zip(*found, strict=True)] == [4, 5, 4]


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
def test_every_computed_file_of_a_checkpoint_is_its_content(micro_checkpoint, tmp_path, name):
    """The tokenizer was trained, too: other merges make other ids of the same texts."""
    copy = own_copy(micro_checkpoint, tmp_path / "copy")
    before = content_digest(copy), identity(copy)
    assert before[0] == content_digest(micro_checkpoint)
    content = (copy / name).read_bytes()
    if name == "tokenizer.json":
        tokenizer = json.loads(content)
        tokenizer["model"]["merges"] = tokenizer["model"]["merges"][:-1]
        (copy / name).write_text(json.dumps(tokenizer))
    else:
        (copy / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert content_digest(copy) != before[0]
    assert identity(copy) != before[1]


def test_a_folder_without_results_has_no_content(tmp_path):
    with pytest.raises(ContractError, match="no weights and no tables"):
        content_digest(tmp_path)
    for digest in (content_digest, identity):
        with pytest.raises(ContractError, match="no such file"):
            digest(tmp_path / "none")


def test_other_features_are_another_product(tmp_path):
    path, found = tmp_path / "features.zarr", []
    for value in (0.0, 0.0, 1.0):
        shutil.rmtree(path, ignore_errors=True)
        writer = create_features(path, responses=2, layers=[0], hidden=3, rows_per_chunk=2, dtype="float32")
        rows = {"response_id": [0, 1], "question_id": ["a", "b"], "length": [1, 1]}
        writer.write(0, rows, np.full((2, 1, 2, 3), value))
        found.append((identity(path), content_digest(path)))
    assert found[0] == found[1]
    assert set(found[0]).isdisjoint(found[2])


def test_a_folder_of_tables_is_told_from_another_by_each_table_and_its_name(tmp_path):
    folder = tmp_path / "rollouts"
    folder.mkdir()
    for step in (9, 10, 11):
        _table(folder / f"step-{step:05d}.parquet", float(step))
    found = [identity(folder)]
    assert identity(shutil.copytree(folder, tmp_path / "copy")) == found[0]
    _table(folder / "step-00010.parquet", 0.0)
    found.append(identity(folder))
    (folder / "step-00010.parquet").rename(folder / "step-00012.parquet")
    found.append(identity(folder))
    (folder / "step-00011.parquet").unlink()
    found.append(identity(folder))
    assert len(set(found)) == 4
