"""A refusal of the machine ends in one sentence: a full disk, a read-only folder, too little memory."""

import errno
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import matplotlib.figure
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import xarray as xr
import zarr
from safetensors.torch import save_file

from cocal import cli
from cocal.commands.catalogue import commands_with
from cocal.runtime.machine_errors import MEMORY_SETTINGS, explain
from cocal.store import write_dataset, write_text
from cocal.store.damage import unreadable
from cocal_study.config import load_study
from micro import MICRO_SETS

NUMBERS = np.random.default_rng(0).random(100_000)
"""800 kB that cannot be compressed."""
AGAIN = "run the same command again"


@contextmanager
def _mounted(folder: Path, options: str) -> Iterator[Path]:
    """A small file system in memory; the test is left out where nothing may be mounted."""
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=False)
    if done.returncode:
        pytest.skip("nothing may be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def full(tmp_path) -> Iterator[Path]:
    """A disk of 256 KiB, new for each test: where writing has failed, a library may hold its file, and the space."""
    if shutil.which("mount") is None:
        pytest.skip("nothing can be mounted here")
    with _mounted(tmp_path / "full", "size=256k") as folder:
        yield folder


def _questions(output: Path) -> int:
    settings = {"datasets": {"micro-eval": MICRO_SETS["datasets"]["micro-eval"]}}
    return cli.main(["questions", "--settings", json.dumps(settings), "--output", str(output)])


def _figure(path: Path) -> None:
    figure = matplotlib.figure.Figure(figsize=(10, 10))
    figure.add_subplot().imshow(NUMBERS.reshape(250, 400))
    figure.savefig(path, dpi=300)


WRITERS = {
    "text": lambda path: path.write_bytes(NUMBERS.tobytes()),
    "Parquet": lambda path: pq.write_table(pa.table({"a": NUMBERS}), path),
    "NetCDF": lambda path: write_dataset(path, xr.Dataset({"a": ("x", NUMBERS)}), {}),
    "safetensors": lambda path: save_file({"a": torch.tensor(NUMBERS)}, path),
    "torch": lambda path: torch.save(torch.tensor(NUMBERS), path),
    "zarr": lambda path: zarr.save(path, NUMBERS),
    "figure": _figure,
    "copy": lambda path: shutil.copy(pa.lib.__file__, path),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_full_disk_is_told_whatever_library_writes(full, write):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each library has an error of its own
        write(full / "file")
    sentence = explain(caught.value, "metrics", [full / "file"])
    assert sentence.startswith(f"{full / 'file'}: ")
    assert "no space is left" in sentence or "could not be written whole" in sentence
    assert "of 256 KiB are free now" in sentence
    assert AGAIN in sentence


def test_a_command_on_a_full_disk_ends_with_one_sentence(full, capsys):
    (full / "other").write_bytes(bytes(250 * 1024))
    assert _questions(full / "questions") == 2
    error = capsys.readouterr().err
    line = error.splitlines()[-1]
    assert "Traceback" not in error
    assert line.startswith(f"cocal questions: error: {full}/questions")
    assert "no space is left on its file system (" in line
    assert [file.name for file in full.rglob("*") if file.is_file()] == ["other"]
    (full / "other").unlink()
    assert _questions(full / "questions") == 0


def test_a_limit_of_file_sizes_ends_a_command_with_one_sentence(tmp_path, monkeypatch, capsys):
    """The variable shows where the error came from."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setenv("COCAL_TRACEBACK", "1")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        assert _questions(tmp_path / "out") == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    traceback, sentence = capsys.readouterr().err.split("cocal questions: error: ")
    assert traceback.startswith("Traceback")
    assert sentence.startswith(f"{tmp_path / 'out'}/micro-eval.parquet: the file would be larger than this process may")


ENDS = """
import resource, sys
from pathlib import Path
import numpy, xarray
from cocal.runtime.machine_errors import explain
from cocal.store import write_dataset
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try:
    write_dataset(sys.argv[1], xarray.Dataset({"a": ("x", numpy.random.default_rng(0).random(9000))}), {})
except Exception as error:
    print(explain(error, "metrics", []))
"""


def test_a_process_that_could_not_write_arrays_ends_in_peace(tmp_path):
    """HDF5 would try to write the rest of its file once more when the process ends, and crash it."""
    command = [sys.executable, "-c", ENDS, str(tmp_path / "cube.nc")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.stdout.startswith(f"{tmp_path / 'cube.nc'}: the file would be larger than this process may write")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_read_only_file_system_is_told(tmp_path, capsys):
    with _mounted(tmp_path / "disk", "ro") as folder:
        assert _questions(folder / "questions") == 2
    error = capsys.readouterr().err
    assert f"cocal questions: error: {folder}/questions" in error
    assert error.endswith("run in another folder with `snakemake --directory FOLDER`\n")


def test_the_settings_that_are_named_exist(repository):
    assert MEMORY_SETTINGS.keys() <= commands_with(None).keys()
    study = load_study(repository / "config/config.yaml")
    for names in MEMORY_SETTINGS.values():
        for name in names:
            found = study
            for part in name.split("."):
                found = getattr(found, part)
            assert isinstance(found, int)


def _told(action: Callable[[], object], command: str = "replay") -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each library has an error of its own
        action()
    return explain(caught.value, command, [])


def test_a_folder_of_somebody_else_is_told_with_its_owner():
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        if root:
            os.seteuid(65534)
        try:
            sentence = _told(lambda: write_text(folder / "new" / "file", "text"))
        finally:
            if root:
                os.seteuid(0)
            folder.chmod(0o755)
        owner = folder.owner()
    assert sentence.startswith(f"{folder}/new: ")
    assert f"has no permission for this; {folder} belongs to {owner} and has the mode dr-xr-xr-x" in sentence


def test_what_is_no_file_is_told(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to("circle")
    for name, told in (("", "a folder where"), ("file/below", "lies below a file"), ("circle", "leads back to itself")):
        path = tmp_path / name
        assert re.match(f"{re.escape(str(path))}: .*{told}", _told(path.read_bytes))


MORE, MORE_OF_GPU = "give the job more memory", "take a GPU with more memory"
LOWER = f", or lower features.batch_tokens of the study (the job then begins anew), and {AGAIN}"
CUDA = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.31 GiB"
SHORTAGES = {
    "numpy": (lambda: np.empty(2**60, dtype=np.uint8), f": 1.00 EiB more were asked for; {MORE}"),
    "torch": (lambda: torch.empty(2**60, dtype=torch.uint8), f": 1 EiB more were asked for; {MORE}"),
    "arrow": (lambda: pa.allocate_buffer(2**60), f": 1 EiB more were asked for; {MORE}"),
    "thread": (Mock(side_effect=RuntimeError("can't start new thread")), f"; {MORE}"),
    "import": (Mock(side_effect=ImportError("lib.so: failed to map segment from shared object")), f"; {MORE}"),
    "GPU": (
        Mock(side_effect=torch.OutOfMemoryError(CUDA)),
        f": 2.50 GiB more were asked for; {MORE_OF_GPU}",
    ),
}


@pytest.mark.parametrize(("allocate", "told"), SHORTAGES.values(), ids=SHORTAGES)
def test_too_little_memory_is_told_with_what_was_asked(allocate, told):
    of_gpu = " of the GPU" * ("GPU" in told)
    assert _told(allocate) == f"the memory{of_gpu} does not suffice{told}{LOWER}"
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
    assert f"{tmp_path}: the disk quota is used up (" in explain(error, "train", [tmp_path])


def test_other_errors_keep_their_traceback(monkeypatch):
    for error in (KeyError("a"), RuntimeError("b"), FileNotFoundError(2, "No such file", "c"), PermissionError(1, "d")):
        assert explain(error, "train", []) is None
    monkeypatch.setattr("cocal_study.commands.study.run_schema", Mock(side_effect=KeyError("a")))
    with pytest.raises(KeyError):
        cli.main(["schema"])
