"""The feature store: layout, regions, resuming, bfloat16, damage."""

from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

from cocal.errors import ContractError
from cocal.features.store import create_features, open_features

LAYERS, HIDDEN, CHUNK = (1, 3), 5, 4
RESPONSES = 10


def states(rows: int = RESPONSES, seed: int = 0) -> np.ndarray:
    """Random features (rows, layers, poolings, hidden)."""
    return np.random.default_rng(seed).normal(size=(rows, len(LAYERS), 2, HIDDEN)).astype(np.float32)


def create(path: Path, **changes):
    options = {"responses": RESPONSES, "layers": LAYERS, "hidden": HIDDEN, "rows_per_chunk": CHUNK}
    return create_features(path, **options | {"dtype": "float32", "attributes": {"stage": "train"}} | changes)


def write(writer, features: np.ndarray, start: int, stop: int) -> None:
    ids = np.arange(start, stop)
    rows = {"response_id": ids + 100, "question_id": [f"q-{n}" for n in ids], "length": ids + 1}
    writer.write(start, rows, features[start:stop])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A complete float32 store of `states()`."""
    path = tmp_path / "features.zarr"
    write(create(path), states(), 0, RESPONSES)
    return path


def test_read_gives_last_beside_mean_of_one_layer(store: Path):
    reader, features = open_features(store), states()
    assert len(reader) == RESPONSES
    assert (reader.layers, reader.poolings, reader.hidden) == (LAYERS, ("last", "mean"), HIDDEN)
    assert reader.attributes == {"stage": "train"}
    assert reader.response_id.tolist() == list(range(100, 110))
    assert reader.question_id.tolist() == [f"q-{n}" for n in range(10)]
    assert reader.length.tolist() == list(range(1, 11))
    np.testing.assert_array_equal(reader.read(2, 7), np.hstack([features[2:7, 1, 0], features[2:7, 1, 1]]))
    np.testing.assert_array_equal(reader.read(0, 10, layer=1, poolings=["mean"]), features[:, 0, 1])
    turned = reader.read(0, 10, poolings=["mean", "last"])
    np.testing.assert_array_equal(turned, np.hstack([features[:, 1, 1], features[:, 1, 0]]))


def test_xarray_reads_the_labels_and_the_values_without_warning(store: Path, recwarn):
    with xr.open_zarr(store, chunks=None) as dataset:
        assert dict(dataset.sizes) == {"response": 10, "layer": 2, "pooling": 2, "hidden": HIDDEN}
        assert {"response_id", "question_id"} <= set(dataset.coords)
        assert dataset["question_id"].to_numpy().tolist() == [f"q-{n}" for n in range(10)]
        chosen = dataset["features"].sel(layer=3, pooling="mean").to_numpy()
        assert dataset.attrs["stage"] == "train"
    np.testing.assert_array_equal(chosen, states()[:, 1, 1])
    assert not recwarn.list


def test_take_keeps_the_order_of_the_rows(store: Path):
    reader = open_features(store)
    rows = np.array([9, 0, 5, 4, 0, 8, 3])
    np.testing.assert_array_equal(reader.take(rows), reader.read(0, 10)[rows])
    assert reader.take(np.array([], dtype=np.int64)).shape == (0, 2 * HIDDEN)


def test_reading_needs_only_the_chunks_of_its_layer_poolings_and_rows(store: Path):
    for chunk in (store / "features" / "c").glob("*/*/*/*"):
        row, layer, pooling, _ = chunk.relative_to(store / "features" / "c").parts
        if (row, layer, pooling) != ("1", "0", "1"):
            chunk.write_bytes(b"damaged")
    np.testing.assert_array_equal(open_features(store).read(4, 8, layer=1, poolings=("mean",)), states()[4:8, 0, 1])


def test_bfloat16_round_trip_rounds_as_torch_does(tmp_path: Path):
    features = states()
    features[0, 0, 0] = [0.0, -0.0, 1.00390625, 1.01171875, 1e-40]  # signed zero, both ties, a subnormal
    write(create(tmp_path / "f.zarr", dtype="bfloat16"), features, 0, RESPONSES)
    expected = torch.from_numpy(features).to(torch.bfloat16).to(torch.float32).numpy()
    reader = open_features(tmp_path / "f.zarr")
    assert reader.dtype == "bfloat16"
    for place, layer in enumerate(LAYERS):
        read = reader.read(0, RESPONSES, layer=layer)
        assert read.dtype == np.float32
        np.testing.assert_array_equal(read.view(np.uint32), expected[:, place].reshape(RESPONSES, -1).view(np.uint32))


def test_unwritten_rows_are_refused_unless_allowed(tmp_path: Path):
    path = tmp_path / "f.zarr"
    write(create(path), states(), 0, CHUNK)
    with pytest.raises(ContractError, match=r"f\.zarr: 6 of 10 rows are not written, the first is row 4"):
        open_features(path)
    reader = open_features(path, allow_partial=True)
    np.testing.assert_array_equal(reader.read(0, CHUNK, layer=1, poolings=("last",)), states()[:CHUNK, 0, 0])
    with pytest.raises(ContractError, match=r"row 4 .* unwritten"):
        reader.read(0, CHUNK + 1)


def test_resuming_rewrites_a_step_with_the_same_bytes_and_keeps_the_others(store: Path):
    before = {file: file.read_bytes() for file in store.rglob("*") if file.is_file()}
    (store / "features" / "c" / "1" / "0" / "0" / "0.0123abcd.partial").write_text("a kill left half a chunk")
    for seed in (1, 0):
        again = states(seed=seed)
        write(create(store, resume=True), again, 4, 8)
        expected = np.concatenate([states()[:4], again[4:8], states()[8:]])
        np.testing.assert_array_equal(open_features(store).read(0, 10), expected[:, 1].reshape(10, -1))
    assert {file: file.read_bytes() for file in store.rglob("*") if file.is_file()} == before


def test_an_interrupted_rewrite_leaves_its_rows_unwritten(store: Path):
    writer = create(store, resume=True)
    (store / "features" / "c" / "1").rename(store / "kept")
    (store / "features" / "c" / "1").write_text("in the way: the write fails between lengths and features")
    with pytest.raises(OSError, match="directory"):
        write(writer, states(seed=1), 4, 8)
    with pytest.raises(ContractError, match="4 of 10 rows are not written, the first is row 4"):
        open_features(store)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"hidden": 6}, "hidden 5, now 6"),
        ({"attributes": {"stage": "other"}}, "attributes"),
    ],
)
def test_an_existing_store_is_resumed_with_its_own_layout_alone(store: Path, change: dict, named: str):
    with pytest.raises(ContractError, match="exists already"):
        create(store)
    with pytest.raises(ContractError, match=f"cannot resume.*{named}"):
        create(store, resume=True, **change)


def test_writes_of_wrong_shape_rows_lengths_or_values_are_refused(tmp_path: Path):
    writer, features = create(tmp_path / "f.zarr", dtype="bfloat16"), states()
    invalid = np.stack([features[:4]] * 3)
    invalid[[0, 1, 2], 2, 1, 0, 2] = np.nan, np.inf, 3.4e38
    ids = np.arange(4)
    for start, given, lengths, block, message in (
        (2, ids, ids + 1, features[2:6], "whole chunks"),
        (0, ids[:3], ids[:3] + 1, features[:3], "whole chunks"),
        (8, ids, ids + 1, features[:4], "whole chunks"),
        (0, ids, ids + 1, features[:4, :1], "of shape"),
        (0, ids[:3], ids + 1, features[:4], "of shape"),
        (0, ids, ids, features[:4], r"row 0 .* length below 1"),
        *((4, ids, ids + 1, one, r"row 6 \(response_id 2\) has a feature that is not finite") for one in invalid),
    ):
        rows = {"response_id": given, "question_id": ["q"] * len(block), "length": lengths}
        with pytest.raises(ContractError, match=message):
            writer.write(start, rows, block)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"layer": 2}, r"layer 2 is not stored; the store holds \[1, 3\]"),
        ({"poolings": ("prompt",)}, "pooling 'prompt'"),
    ],
)
def test_unknown_labels_are_refused(store: Path, asked, message):
    with pytest.raises(ContractError, match=message):
        open_features(store).read(**{"start": 5, "stop": 6} | asked)


def test_lost_truncated_and_altered_chunks_are_refused(store: Path):
    chunk = store / "features" / "c" / "1" / "1" / "0" / "0"
    content = chunk.read_bytes()
    reader = open_features(store)
    for damaged in (content[:-7], content[:5] + bytes([content[5] ^ 1]) + content[6:], b""):
        chunk.write_bytes(damaged)
        with pytest.raises(ContractError, match=r"features\.zarr: not a readable feature store"):
            reader.read(4, 8)
    chunk.unlink()
    with pytest.raises(ContractError, match=r"features\.zarr: features of row 4"):
        reader.read(4, 8)


@pytest.mark.parametrize("damaged", ["zarr.json", "length/c/0", "layer/c/0"])
def test_missing_foreign_and_damaged_stores_are_refused(store: Path, tmp_path: Path, damaged: str):
    file = store / damaged
    file.write_bytes(file.read_bytes()[:-9])
    for path, message in (
        (store, r"features\.zarr: not a readable feature store"),
        (tmp_path, "not a readable feature store"),
        (tmp_path / "none.zarr", r"none\.zarr: no such feature store"),
    ):
        with pytest.raises(ContractError, match=message):
            open_features(path)
