"""Features as batches: held or streamed, in any order, in constant memory."""

import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from cocal.companion.batches import Batches
from cocal.errors import ContractError
from cocal.features.store import FeatureReader, create_features, open_features

ROWS, CHUNK, HIDDEN, BATCH = 100, 10, 3, 8
CPU = torch.device("cpu")
CHOSEN = np.setdiff1d(np.arange(ROWS), [0, 1, 2, 3, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 77, 99])


@pytest.fixture(params=["float32", "bfloat16"])
def reader(tmp_path: Path, request, monkeypatch) -> FeatureReader:
    """Features that count: row r has r in every place; two chunks are read together."""
    monkeypatch.setattr(FeatureReader, "rows_per_read", lambda *_: 2 * CHUNK)
    path = tmp_path / "f.zarr"
    writer = create_features(path, responses=ROWS, layers=[0], hidden=HIDDEN, rows_per_chunk=CHUNK, dtype=request.param)
    ids = np.arange(ROWS)
    features = np.ones((ROWS, 1, 2, HIDDEN)) * ids[:, None, None, None]
    writer.write(0, {"response_id": ids, "question_id": ["q"] * ROWS, "length": ids + 1}, features)
    return open_features(path)


def batches(reader: FeatureReader, **changed) -> Batches:
    return Batches(reader, None, ("last", "mean"), CHOSEN, BATCH, **{"device": CPU, "shuffled": 25} | changed)


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("count", [len(CHOSEN), 41, 3, 8])
@pytest.mark.parametrize("shuffled", [True, False])
def test_every_row_comes_once_in_its_order(reader: FeatureReader, held: bool, count: int, shuffled: bool):
    order = np.random.default_rng(0).permutation(count) if shuffled else None
    places = np.arange(count) if order is None else order
    found = list(batches(reader, held=held).of(count, order))
    assert [len(features) for _, features in found] == [min(BATCH, count - k) for k in range(0, count, BATCH)]
    assert {features.dtype for _, features in found} == {getattr(torch, reader.dtype)}
    assert torch.cat([features for _, features in found])[:, 0].tolist() == CHOSEN[places].tolist()
    assert torch.cat([torch.arange(count)[chosen] for chosen, _ in found]).tolist() == places.tolist()


def test_streaming_in_order_reads_a_chunk_once_a_pass_and_holding_once_in_all(reader: FeatureReader, monkeypatch):
    read = []
    take = FeatureReader.take
    monkeypatch.setattr(FeatureReader, "take", lambda self, rows, *given: read.append(rows) or take(self, rows, *given))
    for held, readings in ((False, 3), (True, 1)):
        read.clear()
        streams = batches(reader, held=held)
        for _ in range(3):
            assert sum(1 for _ in streams.of(len(CHOSEN))) == 11
        assert np.concatenate(read).tolist() == CHOSEN.tolist() * readings
        chunks = np.concatenate([np.unique(rows // CHUNK) for rows in read])
        assert np.bincount(chunks).tolist() == [readings] * 4 + [0] + [readings] * 5  # nothing of chunk 4 is wanted


def test_a_damaged_chunk_is_an_error_where_the_batches_are_used(reader: FeatureReader):
    (reader.path / "features" / "c" / "7" / "0" / "1" / "0").write_bytes(b"damaged")
    streams = batches(reader).of(len(CHOSEN))
    next(streams)
    with pytest.raises(ContractError, match=r"f\.zarr: not a readable feature store"):
        list(streams)


def test_ten_times_the_rows_stream_in_the_same_memory():
    peaks = []
    for count in (2_000, 20_000):
        order = np.random.default_rng(0).permutation(count)
        store = SimpleNamespace(rows_per_read=lambda _: 500, dtype="float32")
        store.take = lambda rows, *_: np.ones((len(rows), 512), dtype=np.float32)
        stream = Batches(store, None, ("last", "mean"), np.arange(count), 64, shuffled=500, device=CPU)
        tracemalloc.start()
        assert sum(len(features) for one in (None, order) for _, features in stream.of(count, one)) == 2 * count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]
