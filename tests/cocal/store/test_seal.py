"""Seals: a changed byte anywhere in a Parquet, NetCDF, safetensors or JSON file, or in a checkpoint, is noticed."""

import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from cocal.cli import main
from cocal.companion.companions import load_companions
from cocal.errors import ContractError
from cocal.models.loading import load_policy, load_tokenizer, read_vocabulary
from cocal.store import check_folder, read_document, read_frame, write_document, write_frame
from cocal.store.origin import PROVENANCE
from cocal.store.seals import BLANK, seal, stated_seal
from cocal_study.store.contracts import JUDGEMENTS
from cocal_study.store.datasets import read_dataset, write_dataset
from companion_run import small_run

CHANGED = "has changed since it was written"


def _flipped(path: Path, place: int) -> None:
    """Flip the lowest bit of one byte, and keep the time of modification."""
    state = path.stat()
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def _table(path: Path) -> None:
    keys = [f"{row:032d}" for row in range(200)]
    frame = pd.DataFrame({"key": keys, "reply": ["right", "wrong"] * 100, "engine": "engine 1"})
    write_frame(path, frame, JUDGEMENTS, {"stage": "judge"})


def _cube(path: Path) -> None:
    write_dataset(path, xr.Dataset({"value": ("cell", np.linspace(0, 1, 100))}), {"stage": "metrics"})


def _document(path: Path) -> None:
    write_document(path, {"seconds": 12.5, "items": 4}, {"stage": "train"})


FILES = {
    "table.parquet": (_table, lambda path: read_frame(path, JUDGEMENTS)),
    "cube.nc": (_cube, read_dataset),
    "cost.json": (_document, read_document),
}


@pytest.mark.parametrize("name", FILES)
def test_no_flipped_byte_of_a_file_passes(tmp_path, name):
    write, read = FILES[name]
    path = tmp_path / name
    write(path)
    whole, size = read(path), path.stat().st_size
    intact = path.read_bytes()
    for place in [*np.linspace(0, size - 1, 60).astype(int).tolist(), size // 2]:
        path.write_bytes(intact)
        _flipped(path, place)
        try:
            found = read(path)
        except ContractError as error:
            assert str(path) in str(error)  # noqa: PT017 (most bytes break the file in ways of their own)
        else:  # the byte lies in the key of the seal itself, so that the file is taken for a user's own
            assert stated_seal(path) is None
            assert found.equals(whole) if hasattr(found, "equals") else found == whole


@pytest.mark.parametrize("name", FILES)
def test_equal_content_gives_equal_files_with_the_digest_of_the_blank_one(tmp_path, name):
    write, _ = FILES[name]
    paths = tmp_path / name, tmp_path / f"again-{name}"
    for path in paths:
        write(path)
    first = paths[0].read_bytes()
    assert first == paths[1].read_bytes()
    paths[1].write_bytes(first.replace(f"seal:{stated_seal(paths[0])}".encode(), BLANK.encode()))
    seal(paths[1])
    assert paths[1].read_bytes() == first


def test_a_file_without_a_seal_is_a_users_own_and_rubbish_is_named(tmp_path):
    path = tmp_path / "cost.json"
    path.write_text('{"seconds": 1.0}')
    assert read_document(path) == {"seconds": 1.0}
    for content in ("", "{", "[1, 2]", "\x00\xff"):
        path.write_text(content)
        with pytest.raises(ContractError, match=r"cost\.json: not a readable JSON file"):
            read_document(path)


def test_a_flipped_weight_of_a_companion_is_noticed(tmp_path):
    run = small_run(tmp_path)
    run.write()
    assert main(run.command(tmp_path / "fitted", "--steps", "3")) == 0
    file = tmp_path / "fitted/steps-3/companions.safetensors"
    load_companions(file)
    _flipped(file, file.stat().st_size - 100)
    with pytest.raises(ContractError, match=f"companions.safetensors: the file {CHANGED}"):
        load_companions(file)


@pytest.fixture
def checkpoint(micro_checkpoint, tmp_path) -> Path:
    """A copy of the micro policy, which may be damaged."""
    return shutil.copytree(micro_checkpoint, tmp_path / "step-0")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"])
def test_a_changed_file_of_a_checkpoint_is_named(checkpoint, name):
    _flipped(checkpoint / name, (checkpoint / name).stat().st_size // 2)
    for read in (load_policy, check_folder) if name == "model.safetensors" else (load_policy, load_tokenizer):
        with pytest.raises(ContractError, match=rf"{name}: the file {CHANGED}"):
            read(checkpoint)
    (checkpoint / name).unlink()
    with pytest.raises(ContractError, match=rf"{name}: the file is missing"):
        load_policy(checkpoint)


def test_broken_settings_of_a_users_checkpoint_are_named_and_not_taken_for_none(checkpoint):
    (checkpoint / PROVENANCE).unlink()
    (checkpoint / "generation_config.json").write_text("{")
    for read in (load_policy, read_vocabulary):
        with pytest.raises(ContractError, match=r"generation_config\.json: not readable"):
            read(checkpoint)
    (checkpoint / "generation_config.json").unlink()
    assert read_vocabulary(checkpoint).ends == load_policy(checkpoint).ends
