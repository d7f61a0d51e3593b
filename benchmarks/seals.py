"""The cost of seals and page checksums: tables and weights read with and without them."""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load_file, save_file

from cocal.store.seals import BLANK, check_seal, seal
from timing import best, row


def measure(quick: bool) -> list[dict]:
    """Time the check of a rollout step's table and of companions; the peer reads the same file unchecked."""
    responses, weights = (64, 10**6) if quick else (2048, 10**8)
    with tempfile.TemporaryDirectory() as folder:
        return [_table(Path(folder) / "step.parquet", responses), _weights(Path(folder) / "all.safetensors", weights)]


def _table(path: Path, responses: int) -> dict:
    """A step's rollouts of 3,000 tokens each, with a log-probability for each token."""
    random = np.random.default_rng(0)
    offsets = np.arange(responses + 1, dtype=np.int32) * 3000
    tokens = pa.array(random.integers(0, 150_000, responses * 3000, dtype=np.int32))
    logprobs = pa.array(-random.random(responses * 3000, dtype=np.float32))
    columns = {"ids": tokens, "logprobs": logprobs}
    table = pa.table({name: pa.ListArray.from_arrays(offsets, values) for name, values in columns.items()})
    table = table.replace_schema_metadata({"seal": BLANK})
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)
    case = f"{responses:,} rollouts of 3,000 tokens"
    plain = partial(pq.read_table, path)
    return _sealed(case, path, partial(plain, page_checksum_verification=True), plain, "pyarrow alone")


def _weights(path: Path, count: int) -> dict:
    save_file({"weights": np.random.default_rng(0).random(count, dtype=np.float32)}, path, {"cocal": BLANK})
    read = partial(load_file, path)
    return _sealed(f"{count:,} weights of companions", path, read, read, "safetensors alone")


def _sealed(case: str, path: Path, read: Callable[[], object], naive: Callable[[], object], peer: str) -> dict:
    """Seal the file and time both ways to read it."""
    seal(path)

    def checked() -> None:
        check_seal(path)
        read()

    times = best(checked, naive, 3, time.perf_counter)
    return row("Seals of files", case, times[0], peer, times[1], f"{path.stat().st_size / 2**20:.0f} MiB")
