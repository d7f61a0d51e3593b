"""A refusal of the machine ends in one sentence: a full disk, a read-only folder, too little memory."""

import errno
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import xarray as xr
import zarr
from safetensors.torch import save_file

from cocal import cli
from cocal.runtime.machine_errors import explain
from cocal.store.damage import unreadable
from cocal_study.store.datasets import write_dataset
from full_disk import full_disk
from micro import MICRO_SETS

NUMBERS = np.random.default_rng(0).random(100_000)
"""800 kB that cannot be compressed."""
AGAIN = "run the same command again"


def _questions(output: Path) -> int:
    settings = {"datasets": {"micro-eval": MICRO_SETS["datasets"]["micro-eval"]}}
    return cli.main(["questions", "--settings", json.dumps(settings), "--output", str(output)])


WRITERS = {
    "text": lambda path: path.write_bytes(NUMBERS.tobytes()),
    "Parquet": lambda path: pq.write_table(pa.table({"a": NUMBERS}), path),
    "NetCDF": lambda path: write_dataset(path, xr.Dataset({"a": ("x", NUMBERS)}), {}),
    "safetensors": lambda path: save_file({"a": torch.tensor(NUMBERS)}, path),
    "torch": lambda path: torch.save(torch.tensor(NUMBERS), path),
    "zarr": lambda path: zarr.save(path, NUMBERS),
    "copy": lambda path: shutil.copy(pa.lib.__file__, path),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_file_that_cannot_be_written_whole_is_told_whatever_library_writes(tmp_path, write):
    with full_disk(4000), pytest.raises(Exception) as caught:  # noqa: PT011 - each library has an error of its own
        write(tmp_path / "file")
    sentence = explain(caught.value, [tmp_path / "file"])
    assert sentence.startswith(f"{tmp_path / 'file'}")
    assert "could not be written (" in sentence
    assert AGAIN in sentence


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "a or b: could not be written .* free space there"),
        (RuntimeError("I/O error (os error 28)"), "a or b: could not be written .* free space"),
        (OSError(errno.EROFS, "", "c"), "c: Read-only file system.* run in another folder with `snakemake --directory"),
        (OSError(errno.EACCES, "", "c"), r"c: Permission denied, for user \d+; mend it"),
        (OSError(errno.EISDIR, "", "c"), "c: Is a dir"),
    ],
)
def test_the_system_s_own_words_are_told_with_place_and_remedy(error, told):
    assert re.match(told, explain(error, [Path("a"), Path("b")]))


def test_a_command_that_cannot_write_ends_with_one_sentence(tmp_path, monkeypatch, capsys):
    """The variable shows where the error came from. Nothing is left, and another try succeeds."""
    monkeypatch.setenv("COCAL_TRACEBACK", "1")
    with full_disk(4000):
        assert _questions(tmp_path / "out") == 2
    traceback, sentence = capsys.readouterr().err.split("cocal questions: error: ")
    assert traceback.startswith("Traceback")
    assert sentence.startswith(f"{tmp_path / 'out'}/micro-eval.parquet: could not be written (File too large); free")
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []
    assert _questions(tmp_path / "out") == 0


def _told(action: Callable[[], object]) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each library has an error of its own
        action()
    return explain(caught.value, [])


MORE = "give the job more memory, or a GPU with more"
CUDA = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.31 GiB"
SHORTAGES = {
    "numpy": (lambda: np.empty(2**60, dtype=np.uint8), f"Unable to allocate 1.00 EiB .*{MORE}"),
    "torch": (lambda: torch.empty(2**60, dtype=torch.uint8), f"you tried to allocate {2**60} bytes.*{MORE}"),
    "arrow": (lambda: pa.allocate_buffer(2**60), f"size {2**60} failed.*{MORE}"),
    "python": (Mock(side_effect=MemoryError()), f"suffice .*; {MORE}"),
    "thread": (Mock(side_effect=RuntimeError("can't start new thread")), f"new thread.*; {MORE}"),
    "import": (Mock(side_effect=ImportError("lib.so: failed to map segment from shared object")), f"lib.so.*; {MORE}"),
    "GPU": (Mock(side_effect=torch.OutOfMemoryError(CUDA)), f"CUDA .*2.50 GiB.*; {MORE}"),
}


@pytest.mark.parametrize(("allocate", "told"), SHORTAGES.values(), ids=SHORTAGES)
def test_too_little_memory_is_told_with_what_was_asked(allocate, told):
    assert re.search(told, said := _told(allocate))
    assert said.endswith(f"or lower the study's micro_batch, batch_size or batch_tokens, and {AGAIN}")
    with pytest.raises(Exception) as caught:  # noqa: PT011
        allocate()
    with pytest.raises(type(caught.value)):  # nobody shall delete a whole file for want of memory
        unreadable("table.parquet", "Parquet file", caught.value)


@pytest.mark.parametrize("cause", [True, False], ids=["cause", "context"])
def test_the_error_behind_an_error_is_found(tmp_path, cause):
    """Where the system does not name the file, it is one of those that the command writes."""
    behind, error = OSError(errno.EDQUOT, "Disk quota exceeded"), RuntimeError("the write failed")
    error.__cause__, error.__context__ = (behind, None) if cause else (None, behind)
    error.__suppress_context__ = cause
    assert f"{tmp_path}: could not be written (Disk quota exceeded)" in explain(error, [tmp_path])


def test_other_errors_keep_their_traceback(monkeypatch):
    for error in (KeyError("a"), RuntimeError("b"), FileNotFoundError(2, "No such file", "c"), PermissionError(1, "d")):
        assert explain(error, []) is None
    monkeypatch.setattr("cocal_study.commands.study.run_schema", Mock(side_effect=KeyError("a")))
    with pytest.raises(KeyError):
        cli.main(["schema"])
