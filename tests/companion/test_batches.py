"""Features as batches: held or streamed, in any order, in constant memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from cocal.companion.batches import Batches, loader
from cocal.errors import ContractError
from cocal.features.store import FeatureReader, open_features
from cocal.features.writer import create_features

ROWS, CHUNK, HIDDEN, BATCH = 100, 10, 3, 8
CPU = torch.device("cpu")
CHOSEN = np.setdiff1d(np.arange(ROWS), [0, 1, 2, 3, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 77, 99])


def write_store(path: Path, dtype: str = "float32") -> FeatureReader:
    """Features that count: row r has r in every place."""
    writer = create_features(path, responses=ROWS, layers=[0], hidden=HIDDEN, rows_per_chunk=CHUNK, dtype=dtype)
    ids = np.arange(ROWS)
    features = np.ones((ROWS, 1, 2, HIDDEN)) * ids[:, None, None, None]
    writer.write(0, ids, ["q"] * ROWS, ids + 1, features)
    return open_features(path)


@pytest.fixture
def reader(tmp_path: Path) -> FeatureReader:
    return write_store(tmp_path / "f.zarr")


def batches(reader: FeatureReader, **changed) -> Batches:
    options = {"per_slice": 2 * CHUNK, "device": CPU, "shuffled": 25}
    return Batches(loader(reader, None, ("last", "mean")), CHOSEN, BATCH, **options | changed)


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("count", [len(CHOSEN), 41, 3, 8])
@pytest.mark.parametrize("shuffled", [True, False])
def test_every_row_comes_once_in_its_order(reader: FeatureReader, held: bool, count: int, shuffled: bool):
    order = np.random.default_rng(0).permutation(count) if shuffled else None
    places = np.arange(count) if order is None else order
    found = list(batches(reader, held=held).of(count, order))
    assert [len(features) for _, features in found] == [min(BATCH, count - k) for k in range(0, count, BATCH)]
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


def test_bfloat16_stays_as_it_is(tmp_path: Path):
    reader = write_store(tmp_path / "b.zarr", "bfloat16")
    for held in (True, False):
        _, features = next(batches(reader, held=held).of(10))
        assert features.dtype == torch.bfloat16
        assert features[:, 0].tolist() == CHOSEN[:BATCH].tolist()


def test_a_damaged_chunk_is_an_error_where_the_batches_are_used(reader: FeatureReader):
    (reader.path / "features" / "c" / "7" / "0" / "1" / "0").write_bytes(b"damaged")
    streams = batches(reader).of(len(CHOSEN))
    next(streams)
    with pytest.raises(ContractError, match=r"f\.zarr: not a readable feature store"):
        list(streams)


_GROWTH = """
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import cocal.features.store as store
from cocal.companion.fit import fit_companions
from cocal.features.writer import create_features
from cocal.study.prefix import Prefix
from cocal.config.evaluation import CompanionSettings

CHUNK, HIDDEN = 2000, 256
store._BYTES_PER_READ = 2**20
settings = CompanionSettings(widths=(2,), dropout=(), passes=1, batch_size=500, seeds=(1,))
block = np.random.default_rng(0).normal(size=(CHUNK, 1, 2, HIDDEN)).astype(np.float32)
peaks = []
for count in (20_000, 120_000):
    path = f"{sys.argv[1]}/{count}.zarr"
    writer = create_features(path, responses=count, layers=[0], hidden=HIDDEN, rows_per_chunk=CHUNK)
    for start in range(0, count, CHUNK):
        writer.write(start, np.arange(start, start + CHUNK), ["q"] * CHUNK, np.ones(CHUNK, dtype=int), block)
    rows = np.arange(count)
    rollouts = pd.DataFrame({"step": 1, "truncated": False, "correct": rows % 3 > 0, "group_accuracy": 0.5})
    rollouts["question"] = pd.Categorical(rows % 100).rename_categories(lambda k: f"question {k}")
    questions = [f"question {k}" for k in range(100)]
    list(fit_companions(settings, store.open_features(path), rollouts, questions, [Prefix(1, 1)], memory=0))
    # Not ru_maxrss, which begins with that of the parent process.
    peaks.append(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]))
print((peaks[1] - peaks[0]) * 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
def test_six_times_the_features_need_no_more_memory(tmp_path: Path):
    """20 MB of features, then 123 MB, none of them held; labels, read whole, take the rest."""
    done = subprocess.run(
        [sys.executable, "-c", _GROWTH, str(tmp_path)], check=True, capture_output=True, text=True, timeout=300
    )
    assert int(done.stdout) < 40 * 2**20, done.stdout
