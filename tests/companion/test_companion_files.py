"""What companions are read from and written to: rollouts, features, weights; and the command."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

from cocal.cli import main
from cocal.companion import companions as companions_module
from cocal.companion.companions import load_companions, save_companions
from cocal.companion.single import SingleMember
from cocal.companion.spec import read_spec
from cocal.companion.supervision import check_features
from cocal.errors import ContractError
from cocal.features.store import open_features
from cocal.study.costs import Cost, device_name, read_cost
from cocal.study.prefix import Prefix
from companion_run import GROUP, HIDDEN, SETTINGS, Run, final_features, small_run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run that is not written yet."""
    return small_run(tmp_path)


def test_group_accuracy_taken_after_truncation_filtering_is_refused(run: Run):
    kept = run.responses["correct"].where(~run.responses["truncated"]).astype(float)
    run.responses["group_accuracy"] = kept.groupby(run.responses.index // GROUP).transform("mean")
    run.write()
    with pytest.raises(ContractError, match="over the whole group, before truncated responses are filtered"):
        run.read()


def test_rollouts_out_of_order_are_refused(run: Run):
    run.write()
    first, second = (run.folder / "rollouts" / f"step-0000{step}.parquet" for step in (1, 2))
    aside = first.rename(run.folder / "aside")
    second.rename(first)
    aside.rename(second)
    with pytest.raises(ContractError, match="chronological order, but column 'step' goes from 2 to 1 at row 160"):
        run.read()


def test_swapped_rows_within_a_step_are_refused(run: Run):
    swapped = [1, 0, *range(2, len(run.responses))]
    run.responses = run.responses.iloc[swapped].reset_index(drop=True)
    run.write()
    with pytest.raises(ContractError, match="'response_id' goes from 1 to 0 at row 1"):
        run.read()


def test_missing_steps_and_questions_are_refused(run: Run):
    run.questions = run.questions.iloc[:-1]
    run.write()
    with pytest.raises(ContractError, match="steps 1 to 5 are needed, found 1 to 3 without 4, 5"):
        run.read(steps=5)
    with pytest.raises(ContractError, match=r"question 'q-44' .* is not in"):
        run.read()
    (run.folder / "rollouts" / "step-00002.parquet").unlink()
    with pytest.raises(ContractError, match="without 2"):
        run.read()


@pytest.mark.parametrize("column", ["response_id", "question_id", "length"])
def test_features_of_other_responses_are_refused(run: Run, column: str):
    rollouts = run.write().read()
    reader = open_features(run.folder / "features.zarr")
    check_features(rollouts, reader)
    rollouts.loc[7, column] += 1 if column != "question_id" else "x"
    with pytest.raises(
        ContractError, match=rf"features\.zarr: {column} is (q-)?\d+ at row 7, the rollouts have (q-)?\d+x? "
    ):
        check_features(rollouts, reader)
    with pytest.raises(ContractError, match="holds 480 rows for 960 rollouts"):
        check_features(pd.concat([rollouts, rollouts]), reader)


def test_saved_companions_predict_the_same(run: Run, tmp_path: Path):
    companions, _ = run.write().fit()
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


def test_a_member_alone_predicts_as_it_does_beside_the_others(run: Run):
    companions, _ = run.write().fit()
    features = final_features(run)[:5]
    expected = companions.predict(features)
    for member in range(len(companions.members)):
        alone = SingleMember(companions, member, torch.device("cpu"))
        found = [alone.predict(torch.from_numpy(features[row : row + 1])) for row in range(5)]
        np.testing.assert_allclose(found, expected[member], atol=1e-6)


def test_bfloat16_features_are_scored_as_their_values(run: Run):
    companions, _ = run.write().fit()
    features = torch.from_numpy(final_features(run)).to(torch.bfloat16)
    np.testing.assert_array_equal(companions.predict(features), companions.predict(features.float()))


def test_predictions_in_batches_keep_their_rows(run: Run, monkeypatch):
    companions, _ = run.write().fit()
    at_once = companions.predict(final_features(run))
    monkeypatch.setitem(companions_module._PREDICTION_BATCH, "cpu", 100)
    np.testing.assert_allclose(companions.predict(final_features(run)), at_once, atol=1e-6)
    assert companions.predict(final_features(run)[:0]).shape == (6, 0)


def test_damaged_files_are_refused(run: Run, tmp_path: Path):
    companions, _ = run.write().fit()
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


def test_command_writes_the_same_bytes_whatever_the_memory_and_without_transformers(run: Run, tmp_path: Path):
    run.write()
    outputs = [tmp_path / "first", tmp_path / "second"]
    for output, memory in zip(outputs, (5, 0), strict=True):
        command = run.command(output, "--steps", "3", "2", "2/3", f"--memory={memory}")
        if output == outputs[0]:  # a process of its own, and this one
            code = f"import sys; from cocal.cli import main; status = main({command!r})"
            code += "; sys.exit(status or 'transformers' in sys.modules)"
            subprocess.run([sys.executable, "-c", code], check=True)
        else:
            assert main(command) == 0
    assert sorted(folder.name for folder in outputs[0].iterdir()) == ["steps-2", "steps-2-validation-3", "steps-3"]
    names = ["companions.safetensors", "history.csv", "spec.json"]
    for prefix in (Prefix(2, 2), Prefix(2, 3), Prefix(3, 3)):
        first, second = (output / prefix.folder for output in outputs)
        assert sorted(file.name for file in first.iterdir()) == names
        for name in names:
            assert (first / name).read_bytes() == (second / name).read_bytes(), name
        written = json.loads((first / "spec.json").read_text())
        assert written["provenance"]["stage"] == "companions"
        parents = json.loads(written["provenance"]["parents"])
        assert {Path(place).name for place in parents} == {"features.zarr", "questions.parquet", "rollouts"}
        loaded = load_companions(first)
        assert loaded.spec == read_spec(first)
        assert loaded.spec.prefix == prefix
        history = pd.read_csv(first / "history.csv")
        assert list(history.columns) == ["pass", "target", "seed", "train_loss", "validation_mse"]
        assert len(history) == SETTINGS.passes * 6
        expected, _ = run.fit(steps=str(prefix))
        np.testing.assert_allclose(
            loaded.predict(final_features(run)), expected.predict(final_features(run)), atol=1e-6
        )


def test_the_command_shuffles_by_its_seed(run: Run, tmp_path: Path):
    """PostCal's order (section 5.1)."""
    shuffled = ["--order=shuffled", "--shuffle-seed=7"]
    assert main(run.write().command(tmp_path / "output", "--steps", "3", *shuffled)) == 0
    found = load_companions(tmp_path / "output/steps-3").model.state_dict()
    same, other = (run.fit(steps="3", order="shuffled", shuffle_seed=seed)[0].model.state_dict() for seed in (7, 8))
    assert all(torch.equal(found[name], weights) for name, weights in same.items())
    assert not all(torch.equal(found[name], weights) for name, weights in other.items())


def test_the_cost_is_that_of_the_last_fit_alone(run: Run, tmp_path: Path, monkeypatch):
    """The clock is read when a fit begins and ends; between them the files are written."""
    clock = iter([0.0, 10.0, 11.0, 14.0, 20.0])
    monkeypatch.setattr("cocal.commands.companions.time", SimpleNamespace(monotonic=lambda: next(clock)))
    cost = tmp_path / "cost.json"
    assert main([*run.write().command(tmp_path / "output", "--steps", "3", "2"), f"--cost={cost}"]) == 0
    assert read_cost(cost, Cost) == Cost(seconds=3.0, items=6, device=device_name())


def test_spec_is_read_without_torch_and_refused_when_broken(run: Run, tmp_path: Path):
    assert main(run.write().command(tmp_path / "output")) == 0
    folder = tmp_path / "output" / "steps-2"
    code = f"import sys; from cocal.companion.spec import read_spec; read_spec({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code + "; sys.exit('torch' in sys.modules)"], check=True)
    (folder / "spec.json").write_text('{"spec": {"steps": 2}}')
    with pytest.raises(ContractError, match=r"spec\.json: contains no valid spec"):
        read_spec(folder)
    (folder / "spec.json").unlink()
    with pytest.raises(ContractError, match=r"spec\.json: no such file"):
        read_spec(folder)


def test_command_reads_no_token_ids_or_texts(run: Run, tmp_path: Path, caplog):
    run.write()
    for file in (run.folder / "rollouts").iterdir():
        table = pq.read_table(file)
        fewer = table.drop_columns(["prompt_ids", "response_ids", "logprobs", "text"])
        pq.write_table(fewer.replace_schema_metadata(None), file)
    with caplog.at_level(logging.INFO):
        assert main(run.command(tmp_path / "output", "--states=0/mean")) == 0
    assert load_companions(tmp_path / "output" / "0" / "mean" / "steps-2").spec.inputs == HIDDEN
    assert "100 %, 2 steps: pass 4 of 4, group " in caplog.text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--steps", "3", "0"], "--steps: '0' is not N or N/M"),
        (["--steps", "2/"], "--steps: '2/' is not N or N/M"),
        (["--steps", "1/9"], "steps 1 to 9 are needed, found 1 to 3"),
        (["--order=shuffled"], "seed"),
        (["--states=1/last"], "layer 1 is not stored"),
        (["--states=0/first"], "pooling 'first' is not stored"),
        (["--states=last"], "--states: 'last' is not LAYER/POOLINGS"),
    ],
)
def test_command_refuses_wrong_flags(run: Run, tmp_path: Path, capsys, flags: list[str], message: str):
    assert main(run.write().command(tmp_path / "output", *flags)) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "output").exists()
