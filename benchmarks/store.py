"""Reading of features: the store against raw `numpy.memmap`, its chunks and codecs, and memory while streaming.

All benchmarks read numbers like hidden states from a warm file cache. They compare the work of the processor, not of
the disk: times and rates are in processor time, which does not depend on other work on the machine. Both the store and
its peer copy the rows into memory.
"""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec, ZstdCodec

from cocal.companion.fit import fit_companions
from cocal.companion.settings import CompanionSettings
from cocal.companion.spec import Prefix
from cocal.features.store import FeatureReader, create_features, open_features
from timing import alone, best, row, timed

HIDDEN, POOLINGS = 4096, 2
_CODECS = {
    "no codec": (),
    "crc32c": (Crc32cCodec(),),
    "zstd 1": (ZstdCodec(level=1),),
    "blosc lz4": (BloscCodec(cname="lz4"),),
    "blosc zstd 1": (BloscCodec(cname="zstd", clevel=1),),
}


def measure(quick: bool) -> list[dict]:
    """Time reading, codecs and streaming."""
    rows = 2048 if quick else 8192
    with tempfile.TemporaryDirectory() as folder:
        return [
            *_reading(Path(folder), rows),
            *_codecs(Path(folder), min(rows, 4096)),
            *_streaming(Path(folder), 10_000 if quick else 100_000),
        ]


def _reading(folder: Path, rows: int) -> Iterator[dict]:
    """Time the reading of features of the paper's size: last || mean of 4,096 units in bfloat16."""
    raw = np.memmap(folder / "raw", dtype=np.uint16, mode="w+", shape=(rows, POOLINGS * HIDDEN))
    states = _states(rows)
    for chunk in (256, 512, 1024, 2048):
        path = folder / f"{chunk}.zarr"
        writer = create_features(path, responses=rows, layers=[35], hidden=HIDDEN, rows_per_chunk=chunk)
        writing = timed(lambda chunk=chunk, writer=writer: _write(writer, states, chunk))
        reader = open_features(path)
        raw[:] = reader.take(np.arange(rows))
        note = f"written at {raw.nbytes / writing / 1e9:.2g} GB/s"
        yield _compared("all rows in order", reader, raw, np.arange(rows), 2048, note)
    generator = np.random.default_rng(0)
    kept = np.flatnonzero(generator.random(rows) < 0.85)
    yield _compared("85 % of the rows in order", reader, raw, kept, 2048)
    yield _compared("half of the rows, shuffled", reader, raw, generator.permutation(rows)[: rows // 2], rows)


def _compared(
    name: str, reader: FeatureReader, raw: np.memmap, chosen: np.ndarray, together: int, note: str = ""
) -> dict:
    """Time the reading of the `chosen` rows, `together` at a time."""
    parts = np.split(chosen, range(together, len(chosen), together))
    np.testing.assert_array_equal(reader.take(parts[0]), raw[parts[0]])
    in_order = len(chosen) == len(raw)

    def from_memmap() -> None:
        for part in parts:
            np.array(raw[part[0] : part[-1] + 1]) if in_order else raw[part]

    ours, theirs = best(lambda: [reader.take(part) for part in parts], from_memmap, 5)
    size = len(chosen) * raw.shape[1] * raw.itemsize / 1e9
    rates = f"{size / ours:.2g} GB/s, numpy.memmap {size / theirs:.2g}"
    case = f"{name}: {size:.2g} GB, chunks of {reader.path.stem} rows"
    return row("feature store, reading", case, ours, "numpy.memmap", theirs, f"{rates}; {note}" if note else rates)


def _codecs(folder: Path, rows: int) -> Iterator[dict]:
    """Time plain Zarr arrays in chunks of 2,048 rows of one pooling."""
    values = _states(rows)[:, 0, 0]
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    for form, array in (("float32", values), ("bfloat16", bits)):
        raw = np.memmap(folder / form, dtype=array.dtype, mode="w+", shape=array.shape)
        raw[:] = array
        for name, codecs in _CODECS.items():
            path = folder / f"{form} {name}"
            stored = zarr.create_array(
                path, shape=array.shape, chunks=(2048, HIDDEN), dtype=array.dtype, compressors=codecs
            )
            writing = timed(lambda array=array, stored=stored: stored.__setitem__(slice(None), array))
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / array.nbytes
            ours, theirs = best(lambda stored=stored: stored[:], lambda raw=raw: np.array(raw), 5)
            note = (
                f"{size:.2f} of the raw size; written at {array.nbytes / writing / 1e9:.2g} GB/s, "
                f"read at {array.nbytes / ours / 1e9:.2g}"
            )
            yield row("feature store, codecs", f"{form}, {name}", ours, "numpy.memmap", theirs, note)


def _streaming(folder: Path, rows: int) -> Iterator[dict]:
    """Time a pass of training over features that are streamed, then over ten times as many."""
    for count in (rows, 10 * rows):
        seconds, growth = alone(_streamed, folder / f"{count}.zarr", count)
        size = count * POOLINGS * 256 * 2 / 2**20
        case = f"a pass over {count:,} responses, {size:,.0f} MiB, none held"
        yield row("feature store, streaming", case, seconds, note=f"peak {growth / 2**20:,.0f} MiB above start")


def _streamed(path: Path, count: int) -> tuple[float, int]:
    """Seconds of the pass, and the bytes by which the peak memory grew."""
    chunk, hidden = 2000, 256
    writer = create_features(path, responses=count, layers=[0], hidden=hidden, rows_per_chunk=chunk)
    block = np.random.default_rng(0).normal(size=(chunk, 1, POOLINGS, hidden)).astype(np.float32)
    for start in range(0, count, chunk):
        writer.write(start, _labels(start, chunk), block)
    rows = np.arange(count)
    rollouts = pd.DataFrame({"step": 1, "truncated": False, "correct": rows % 3 > 0, "group_accuracy": 0.5})
    rollouts["question"] = pd.Categorical(rows % 1000).rename_categories(lambda k: f"question {k}")
    questions = rollouts["question"].cat.categories
    settings = CompanionSettings(widths=(16, 8), dropout=(), passes=1)
    features = open_features(path)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak memory
    before = _peak()
    seconds = timed(lambda: list(fit_companions(settings, features, rollouts, questions, [Prefix(1, 1)], memory=0)))
    return seconds, _peak() - before


def _peak() -> int:
    """Peak of the resident memory in bytes."""
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])


def _states(rows: int) -> np.ndarray:
    """Normal numbers, float32 (rows, 1, poolings, hidden), whose units differ in mean and scale like hidden states."""
    generator = np.random.default_rng(0)
    scale = generator.lognormal(size=(POOLINGS, HIDDEN)).astype(np.float32)
    mean = generator.normal(size=(POOLINGS, HIDDEN)).astype(np.float32)
    return generator.standard_normal((rows, 1, POOLINGS, HIDDEN), dtype=np.float32) * scale + mean


def _write(writer, states: np.ndarray, chunk: int) -> None:
    for start in range(0, len(states), chunk):
        block = states[start : start + chunk]
        writer.write(start, _labels(start, len(block)), block)


def _labels(start: int, count: int) -> dict[str, list]:
    return {"response_id": list(range(start, start + count)), "question_id": ["q"] * count, "length": [1] * count}
