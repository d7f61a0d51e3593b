"""Stored companions: what is saved, predicted again, and refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from cocal.companion import companions as companions_module
from cocal.companion.companions import Companions, load_companions, save_companions, write_companions
from cocal.companion.spec import read_spec
from cocal.errors import ContractError
from cocal_study.generation.latency import SingleMember
from companion_run import HIDDEN, Run, final_features


@pytest.fixture
def companions(fitted) -> Companions:
    return fitted[0]


def test_saved_companions_predict_the_same(run: Run, companions: Companions, tmp_path: Path):
    file = tmp_path / "companions.safetensors"
    save_companions(file, companions, {"stage": "companions"})
    (tmp_path / "usual").touch()
    assert file.stat().st_mode == (tmp_path / "usual").stat().st_mode  # safetensors lets only the owner read
    loaded = load_companions(file)
    assert loaded.spec == companions.spec
    assert loaded.members == [(target, seed) for target in ("group", "binary") for seed in (42, 137, 500)]
    np.testing.assert_array_equal(loaded.predict(final_features(run)), companions.predict(final_features(run)))
    with pytest.raises(ContractError, match=r"shape \(480, 6\), but the companions need width 12"):
        loaded.predict(final_features(run)[:, :HIDDEN])


def test_predictions_do_not_depend_on_batches_or_neighbours(run: Run, companions: Companions, monkeypatch):
    features = final_features(run)
    expected = companions.predict(features)
    assert expected.dtype == np.float64
    assert ((expected >= 0) & (expected <= 1)).all()
    for member in range(len(companions.members)):
        alone = SingleMember(companions, member, torch.device("cpu"))
        found = [alone.predict(torch.from_numpy(features[row : row + 1])) for row in range(5)]
        np.testing.assert_allclose(found, expected[member, :5], atol=1e-6)
    monkeypatch.setitem(companions_module._PREDICTION_BATCH, "cpu", 100)
    np.testing.assert_allclose(companions.predict(features), expected, atol=1e-6)
    assert companions.predict(features[:0]).shape == (6, 0)
    bfloat16 = torch.from_numpy(features).to(torch.bfloat16)
    np.testing.assert_array_equal(companions.predict(bfloat16), companions.predict(bfloat16.float()))


def test_damaged_files_are_refused(companions: Companions, tmp_path: Path):
    file = tmp_path / "companions.safetensors"
    save_companions(file, companions, {})
    content, weights = file.read_bytes(), companions.model.state_dict()
    for damaged in (content[:-10], content[:100], b""):
        file.write_bytes(damaged)
        with pytest.raises(ContractError, match=r"companions\.safetensors: not a readable safetensors file"):
            load_companions(file)
    save_file(weights, file)
    with pytest.raises(ContractError, match="no valid spec"):
        load_companions(file)
    other = companions.spec.model_copy(update={"inputs": 13}).model_dump(mode="json")
    save_file(weights, file, {"cocal": json.dumps({"spec": other})})
    with pytest.raises(ContractError, match="weights do not fit the companions' spec"):
        load_companions(file)
    with pytest.raises(ContractError, match="no such file"):
        load_companions(tmp_path / "none.safetensors")


def test_a_broken_spec_is_refused(fitted, tmp_path: Path):
    folder = tmp_path / "output"
    write_companions(folder, *fitted, {})
    (folder / "spec.json").write_text('{"spec": {"steps": 2}}')
    with pytest.raises(ContractError, match=r"spec\.json: contains no valid spec"):
        read_spec(folder)
    (folder / "spec.json").unlink()
    with pytest.raises(ContractError, match=r"spec\.json: no such file"):
        read_spec(folder)
