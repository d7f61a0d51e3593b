"""Features of stored rollouts and prompts: the right policy reads each step, row by row, and a killed run goes on."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import dumps
from cocal.cli import main
from cocal.companion.companions import load_companions
from cocal.errors import ContractError
from cocal.features.forward import score
from cocal.features.store import open_features
from cocal.models.loading import load_policy
from cocal.store import read_frame, write_frame
from cocal.store.contracts import RESPONSES
from cocal_study.generation import replay
from cocal_study.generation.labels import check_features, read_prompts
from cocal_study.generation.replay import StepCheckpoints, rescorer, step_tables
from cocal_study.store.contracts import QUESTIONS
from companion_run import GROUP, GROUPS, SETTINGS, Run, small_run
from own_rollouts import killed_at

ROWS = dumps.GROUP * dumps.SETTINGS.questions_per_step
SINGLE = '{"dtype": "float32"}'


@pytest.fixture(scope="module")
def rollouts(tmp_path_factory, micro_policy, micro_questions):
    """Folder of tables, and the table of all steps."""
    frame = dumps.sampled(micro_policy, read_frame(micro_questions / "micro-train.parquet", QUESTIONS))
    folder = tmp_path_factory.mktemp("rollouts")
    for step, rows in frame.groupby("step"):
        write_frame(folder / f"step-{step:05d}.parquet", rows, RESPONSES, {})
    return folder, frame


@pytest.fixture(scope="module")
def policies(tmp_path_factory, micro_checkpoint) -> dict[int, Path]:
    """Policies after the steps 0 to 3, each with weights of its own."""
    folder = tmp_path_factory.mktemp("policies")
    for step in range(4):
        model, tokenizer = load_policy(micro_checkpoint)
        with torch.no_grad():
            for weights in model.parameters():
                weights.mul_(1 - 0.02 * step)
        model.save_pretrained(folder / f"step-{step}")
        tokenizer.save_pretrained(folder / f"step-{step}")
    return {step: folder / f"step-{step}" for step in range(4)}


@pytest.fixture
def run(tmp_path, rollouts):
    """`cocal replay`; returns the exit code."""

    def start(*more):
        command = ["replay", "--settings", '{"dtype": "float32", "layers": "all", "batch_tokens": 300}']
        command += ["--rollouts", rollouts[0], "--run-folder", tmp_path / "run", "--output", tmp_path / "rollouts.zarr"]
        return main([str(word) for word in [*command, *more]])

    return start


def passed(checkpoint: Path, prompts, responses, **options):
    """All rows of a step in one batch."""
    model, tokenizer = load_policy(checkpoint)
    batches, pad = [np.arange(len(prompts))], tokenizer.pad_token_id
    return score(model, prompts, responses, batches, layers=(0, 1), pad=pad, **options)


def check(store: Path, frame: pd.DataFrame, by_step: dict[int, Path]) -> None:
    reader = open_features(store)
    check_features(frame, reader)
    for step, checkpoint in by_step.items():
        rows, first = frame[frame["step"] == step], (step - 1) * ROWS
        wanted = passed(checkpoint, rows["prompt_ids"].tolist(), rows["response_ids"].tolist()).features
        for layer in (0, 1):
            found = reader.read(first, first + ROWS, layer)
            np.testing.assert_allclose(found, wanted[:, layer].reshape(ROWS, -1), atol=2e-5)


def test_every_step_is_read_by_the_next_stage(run, policies, rollouts, tmp_path):
    assert run("--checkpoints", policies[3], policies[2]) == 0
    check(tmp_path / "rollouts.zarr", rollouts[1], {1: policies[2], 2: policies[2], 3: policies[3]})


@pytest.mark.parametrize("slime", [False, True])
def test_exact_weights_are_those_that_sampled_the_step(run, policies, rollouts, tmp_path, slime):
    folder = policies[0].parent
    if slime:
        folder = tmp_path / "weights"
        folder.mkdir()
        for version in (1, 2, 3):
            (folder / f"weight_v{version:06d}").symlink_to(policies[version - 1])
    assert run("--exact", folder) == 0
    check(tmp_path / "rollouts.zarr", rollouts[1], {step: policies[step - 1] for step in (1, 2, 3)})


def test_a_killed_run_goes_on_with_the_next_step(run, policies, rollouts, tmp_path, monkeypatch):
    passes = killed_at(monkeypatch, replay, "pooled_states", 2, 2)
    flags = ("--checkpoints", policies[2], policies[3])
    with pytest.raises(KeyboardInterrupt):
        run(*flags)
    assert not (tmp_path / "rollouts.zarr").exists()
    assert run(*flags) == 0
    assert len(passes) == 4, "the first step is read once, the second once more"
    check(tmp_path / "rollouts.zarr", rollouts[1], {1: policies[2], 3: policies[3]})


def test_log_probabilities_of_a_step_are_those_of_its_policy(policies, rollouts):
    rescore = rescorer(StepCheckpoints([policies[2], policies[3]]), 300)
    for step, stage in ((1, 2), (3, 3), (2, 2)):
        frame = rollouts[1][rollouts[1]["step"] == step]
        ids = frame["prompt_ids"].tolist(), frame["response_ids"].tolist()
        wanted = passed(policies[stage], *ids, logprobs=True).logprobs
        for found, expected in zip(rescore(step, *ids), wanted, strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_lost_table_or_policy_is_named(run, policies, tmp_path, capsys):
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights/weight_v000001").symlink_to(policies[0])
    for flags, message in (
        (["--checkpoints", policies[2]], "no checkpoint is of step 3 or later; the last one is of step 2"),
        (["--exact", tmp_path / "weights"], "no weights of the policy that sampled step 2"),
        (["--exact", tmp_path / "none"], "there is no such folder with the weights of every step"),
        ([], "--checkpoints: give"),
        (["--checkpoints", tmp_path / "final"], "final is not named step-N"),
    ):
        assert run(*flags) == 2
        assert message in capsys.readouterr().err
    for step in (1, 3):
        (tmp_path / f"step-{step:05d}.parquet").touch()
    with pytest.raises(ContractError, match="the table of step 2 is missing"):
        step_tables(tmp_path)


def asked(folder: Path, shift: int = 0) -> Run:
    """A run with a prompt of its own for each group, and questions that another schedule shifts."""
    run = small_run(folder)
    run.responses["prompt_ids"] = [[1, 30 + row // GROUP, 40] for row in range(len(run.responses))]
    run.responses["question_id"] = [f"q-{(row // GROUP + shift) % 45}" for row in range(len(run.responses))]
    return run.write()


@pytest.fixture(scope="module")
def prompts(tmp_path_factory, policies) -> tuple[Run, Path]:
    """A run, and the store that `cocal prompts` makes of it with the policies of the steps 2 and 3."""
    folder = tmp_path_factory.mktemp("prompts")
    run, output = asked(folder / "run"), folder / "prompts.zarr"
    stages = ["--checkpoints", str(policies[2]), str(policies[3])]
    rollouts = ["--rollouts", str(run.folder / "rollouts")]
    assert main(["prompts", "--settings", SINGLE, *rollouts, *stages, "--output", str(output)]) == 0
    return run, output


def test_every_prompt_is_read_by_the_next_stage(prompts, policies):
    run, output = prompts
    found = open_features(output)
    states, early = found.read(0, 3 * GROUPS, poolings=["prompt"]), 2 * GROUPS
    ids = run.responses["prompt_ids"].iloc[::GROUP].tolist()
    second, third = (
        passed(policies[step], ids, [()] * len(ids), poolings=("prompt",)).features[:, 1, 0] for step in (2, 3)
    )
    np.testing.assert_allclose(states[:early], second[:early], atol=2e-5)
    np.testing.assert_allclose(states[early:], third[early:], atol=2e-5)
    assert np.abs(second - third).max() > 1e-2


def of_prompts(run: Run, features: Path, folder: Path) -> list[str]:
    """`cocal companions` on prompts."""
    settings = SETTINGS.model_copy(update={"targets": ("question",), "batch_size": 4})
    places = [f"--{name.split('.')[0]}={run.folder / name}" for name in ("rollouts", "questions.parquet")]
    places += [f"--features={features}", f"--output={folder / 'out'}", f"--cost={folder / 'cost.json'}"]
    return ["companions", f"--settings={settings.model_dump_json()}", *places, "--steps", "3"]


def test_prompts_of_another_schedule_or_features_of_responses_are_refused(prompts, tmp_path, capsys):
    """Rows of prompts count from 0 and have one token each, whatever was asked."""
    other = asked(tmp_path / "other", shift=1)
    assert main([*of_prompts(other, prompts[1], tmp_path), "--prompts"]) == 2
    said = capsys.readouterr().err
    assert "prompts.zarr: question_id is q-0 at row 0, the rollouts have q-1 (60 such row(s))" in said
    assert main(of_prompts(prompts[0], prompts[1], tmp_path)) == 2
    assert not (tmp_path / "out").exists()


def test_companions_of_prompts_are_selected_by_group_accuracy(prompts, tmp_path):
    run, features = prompts
    assert main([*of_prompts(run, features, tmp_path), "--prompts"]) == 0
    companions = load_companions(tmp_path / "out/steps-3")
    asked_prompts = read_prompts(run.folder / "rollouts", run.folder / "questions.parquet", 3)
    held_out = run.held_out(asked_prompts)
    assert companions.spec.validation_responses == held_out.sum() > 0
    assert companions.spec.training_responses + held_out.sum() == 3 * GROUPS
    history = pd.read_csv(tmp_path / "out/steps-3/history.csv")
    confidence = companions.predict(open_features(features).read(0, 3 * GROUPS, poolings=["prompt"])[held_out])
    errors = np.mean((confidence - asked_prompts["group_accuracy"].to_numpy()[held_out]) ** 2, axis=1)
    for (_, seed), best, error in zip(companions.members, companions.spec.best_pass, errors, strict=True):
        mine = history[history["seed"] == seed].set_index("pass")["validation_mse"]
        assert best == mine.idxmin()
        np.testing.assert_allclose(error, mine.min(), rtol=1e-5)
