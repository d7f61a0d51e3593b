"""The cost of seals and page checksums: tables and weights read with and without them."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load_file, save_file

from cocal.store.files import BLANK, check_seal, seal

_REPEATS = 3


def measure(quick: bool) -> list[dict]:
    """Time the check of a rollout step's table and of companions; the peer reads the same file unchecked."""
    responses, weights = (64, 10**6) if quick else (2048, 10**8)
    with tempfile.TemporaryDirectory() as folder:
        return [_table(Path(folder), responses), _weights(Path(folder), weights)]


def _table(folder: Path, responses: int) -> dict:
    """A step's rollouts of 3,000 tokens each, with a log-probability for each token."""
    random, path = np.random.default_rng(0), folder / "step.parquet"
    offsets = np.arange(responses + 1, dtype=np.int32) * 3000
    tokens = pa.array(random.integers(0, 150_000, responses * 3000, dtype=np.int32))
    logprobs = pa.array(-random.random(responses * 3000, dtype=np.float32))
    columns = {"ids": tokens, "logprobs": logprobs}
    table = pa.table({name: pa.ListArray.from_arrays(offsets, values) for name, values in columns.items()})
    table = table.replace_schema_metadata({"seal": BLANK})
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)
    seal(path)

    def checked() -> None:
        check_seal(path)
        pq.read_table(path, page_checksum_verification=True)

    return _row(f"{responses:,} rollouts of 3,000 tokens", path, checked, lambda: pq.read_table(path), "pyarrow alone")


def _weights(folder: Path, count: int) -> dict:
    path = folder / "companions.safetensors"
    save_file({"weights": np.random.default_rng(0).random(count, dtype=np.float32)}, path, {"cocal": BLANK})
    seal(path)

    def checked() -> None:
        check_seal(path)
        load_file(path)

    return _row(f"{count:,} weights of companions", path, checked, lambda: load_file(path), "safetensors alone")


def _row(case: str, path: Path, ours: Callable[[], object], naive: Callable[[], object], peer: str) -> dict:
    seconds, peer_seconds = (min(_seconds(read) for _ in range(_REPEATS)) for read in (ours, naive))
    return {
        "benchmark": "Seals of files",
        "case": case,
        "seconds": seconds,
        "peer": peer,
        "peer_seconds": peer_seconds,
        "ratio": peer_seconds / seconds,
        "note": f"{path.stat().st_size / 2**20:.0f} MiB",
    }


def _seconds(read: Callable[[], object]) -> float:
    started = time.perf_counter()
    read()
    return time.perf_counter() - started
