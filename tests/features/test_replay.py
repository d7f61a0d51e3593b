"""Features of stored rollouts: the right policy reads each step, row by row, and a killed run goes on."""

import numpy as np
import pytest
import torch

import dumps
from cocal.cli import main
from cocal.companion.supervision import check_features
from cocal.errors import ConfigError, ContractError
from cocal.features import readers as readers_module
from cocal.features import replay as replay_module
from cocal.features.forward import score
from cocal.features.readers import StepCheckpoints
from cocal.features.store import open_features
from cocal.models.loading import load_policy
from cocal.store import read_frame, write_frame
from cocal.store.contracts import QUESTIONS, RESPONSES

ROWS = dumps.GROUP * dumps.SETTINGS.questions_per_step


@pytest.fixture(scope="module")
def rollouts(tmp_path_factory, micro_policy, micro_questions):
    """Folder of tables, and the table of all steps."""
    frame = dumps.sampled(micro_policy, read_frame(micro_questions / "micro-train.parquet", QUESTIONS))
    folder = tmp_path_factory.mktemp("rollouts")
    for step, rows in frame.groupby("step"):
        write_frame(folder / f"step-{step:05d}.parquet", rows, RESPONSES, {})
    return folder, frame


@pytest.fixture(scope="module")
def policies(tmp_path_factory, micro_checkpoint):
    """Policies before the steps 1 to 4, each with weights of its own."""
    folder = tmp_path_factory.mktemp("policies")
    for step in range(4):
        model, tokenizer = load_policy(micro_checkpoint)
        with torch.no_grad():
            for weights in model.parameters():
                weights.mul_(1 - 0.02 * step)
        model.save_pretrained(folder / f"step-{step}")
        tokenizer.save_pretrained(folder / f"step-{step}")
    return folder


@pytest.fixture
def run(tmp_path, rollouts):
    """`cocal replay`; returns the exit code."""

    def start(*more):
        command = ["replay", "--settings", '{"dtype": "float32", "layers": "all", "batch_tokens": 300}']
        command += ["--rollouts", rollouts[0], "--run-folder", tmp_path / "run", "--output", tmp_path / "rollouts.zarr"]
        return main([str(word) for word in [*command, *more]])

    return start


def expected(checkpoint, frame) -> np.ndarray:
    """States of a step (rows, layers, poolings * hidden) in one batch."""
    model, tokenizer = load_policy(checkpoint)
    prompts, responses = frame["prompt_ids"].tolist(), frame["response_ids"].tolist()
    rows = [np.arange(len(frame))]
    (part,) = score(model, prompts, responses, rows, layers=(0, 1), pad=tokenizer.pad_token_id)
    return part.features.reshape(len(frame), 2, -1)


def check(store, frame, by_step) -> None:
    reader = open_features(store)
    check_features(frame, reader)
    for step, checkpoint in by_step.items():
        first = (step - 1) * ROWS
        wanted = expected(checkpoint, frame[frame["step"] == step])
        for layer in (0, 1):
            np.testing.assert_allclose(reader.read(first, first + ROWS, layer), wanted[:, layer], atol=2e-5)


def test_every_step_is_read_by_the_next_stage(run, policies, rollouts, tmp_path):
    assert run("--checkpoints", policies / "step-3", policies / "step-2") == 0
    check(
        tmp_path / "rollouts.zarr",
        rollouts[1],
        {1: policies / "step-2", 2: policies / "step-2", 3: policies / "step-3"},
    )


@pytest.mark.parametrize("slime", [False, True])
def test_exact_weights_are_those_that_sampled_the_step(run, policies, rollouts, tmp_path, slime):
    folder = policies
    if slime:
        folder = tmp_path / "weights"
        folder.mkdir()
        for version in (1, 2, 3):
            (folder / f"weight_v{version:06d}").symlink_to(policies / f"step-{version - 1}")
    assert run("--exact", folder) == 0
    check(tmp_path / "rollouts.zarr", rollouts[1], {step: policies / f"step-{step - 1}" for step in (1, 2, 3)})


def test_a_killed_run_goes_on_with_the_next_step(run, policies, rollouts, tmp_path, monkeypatch):
    real, passes = replay_module._replay_step, []

    def dying(writer, table, *rest):
        if len(passes) == 1:
            passes.append(None)
            raise KeyboardInterrupt
        passes.append(table.name)
        return real(writer, table, *rest)

    monkeypatch.setattr(replay_module, "_replay_step", dying)
    flags = ("--checkpoints", policies / "step-2", policies / "step-3")
    with pytest.raises(KeyboardInterrupt):
        run(*flags)
    assert not (tmp_path / "rollouts.zarr").exists()
    assert run(*flags) == 0
    assert passes == ["step-00001.parquet", None, "step-00002.parquet", "step-00003.parquet"]
    check(tmp_path / "rollouts.zarr", rollouts[1], {1: policies / "step-2", 3: policies / "step-3"})


def test_log_probabilities_of_a_step_are_those_of_its_policy(policies, rollouts):
    rescore = replay_module.Rescorer(StepCheckpoints({2: policies / "step-2", 3: policies / "step-3"}), 300)
    for step, checkpoint in ((1, "step-2"), (3, "step-3"), (2, "step-2")):
        model, tokenizer = load_policy(policies / checkpoint)
        frame = rollouts[1][rollouts[1]["step"] == step]
        ids = frame["prompt_ids"].tolist(), frame["response_ids"].tolist()
        rows = [np.arange(len(frame))]
        (part,) = score(model, *ids, rows, layers=(0,), pad=tokenizer.pad_token_id, logprobs=True)
        for found, wanted in zip(rescore(step, *ids), part.logprobs, strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_a_lost_table_or_policy_is_named(run, policies, tmp_path, capsys):
    assert run("--checkpoints", policies / "step-2") == 2
    assert "no checkpoint is of step 3 or later; the last one is of step 2" in capsys.readouterr().err
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights/weight_v000001").symlink_to(policies / "step-0")
    assert run("--exact", tmp_path / "weights") == 2
    assert "no weights of the policy that sampled step 2" in capsys.readouterr().err
    assert run() == 2
    assert "--checkpoints: give" in capsys.readouterr().err
    for step in (1, 3):
        (tmp_path / f"step-{step:05d}.parquet").touch()
    with pytest.raises(ContractError, match="the table of step 2 is missing"):
        replay_module.step_tables(tmp_path)


def test_spans_join_the_steps_of_a_reader(tmp_path):
    readers = StepCheckpoints({3: tmp_path / "step-3", 1: tmp_path / "step-1"})
    assert list(readers.spans(3)) == [(tmp_path / "step-1", range(1, 2)), (tmp_path / "step-3", range(2, 4))]
    assert list(readers.spans(2)) == [(tmp_path / "step-1", range(1, 2)), (tmp_path / "step-3", range(2, 3))]
    with pytest.raises(ConfigError, match="final is not named step-N"):
        readers_module.StepCheckpoints.from_folders([tmp_path / "final"])
