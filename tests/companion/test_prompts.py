"""Pre-generation: prompt states of the stage checkpoints, question-level targets (appendix F.4)."""

import numpy as np
import pandas as pd
import pytest
import torch

from cocal.cli import main
from cocal.companion.companions import load_companions
from cocal.companion.supervision import read_prompts, read_rollouts
from cocal.companion.targets import confidence_targets
from cocal.features.store import open_features
from cocal.models.loading import load_policy
from companion_run import GROUP, GROUPS, SETTINGS, Run, small_run


@pytest.fixture
def run(tmp_path) -> Run:
    """Rollouts with a prompt of its own for every group."""
    run = small_run(tmp_path / "run")
    run.responses["prompt_ids"] = [[1, 30 + row // GROUP, 40] for row in range(len(run.responses))]
    return run.write()


@pytest.fixture
def checkpoints(tmp_path, micro_checkpoint):
    """Two stages, the second with other weights."""
    folders = {2: tmp_path / "step-2", 3: tmp_path / "step-3"}
    for step, folder in folders.items():
        model, tokenizer = load_policy(micro_checkpoint)
        with torch.no_grad():
            for weights in model.parameters():
                weights.mul_(1 - 0.02 * step)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folders


def test_a_row_is_a_group_with_its_mean_correctness(run):
    places = run.folder / "rollouts", run.folder / "questions.parquet", 3
    prompts, rollouts = read_prompts(*places), read_rollouts(*places)
    assert rollouts["truncated"].any()  # they count in the mean
    means = rollouts["correct"].to_numpy().reshape(-1, GROUP).mean(axis=1)
    np.testing.assert_allclose(prompts["correct"], means)
    assert prompts["step"].tolist() == sorted(prompts["step"])
    assert not prompts["truncated"].any()
    # unlike post-generation group supervision, the target is not multiplied by correctness
    targets = confidence_targets("question", np.zeros(len(means)), prompts["group_accuracy"].to_numpy())
    np.testing.assert_allclose(targets, means)


def command(run, checkpoints, output):
    folders = [str(folder) for folder in checkpoints.values()]
    rollouts = str(run.folder / "rollouts")
    settings = '{"dtype": "float32"}'
    return [
        "prompts",
        f"--settings={settings}",
        "--rollouts",
        rollouts,
        "--checkpoints",
        *folders,
        f"--output={output}",
    ]


def test_every_step_is_read_by_the_next_stage(run, checkpoints, tmp_path):
    output = tmp_path / "prompts.zarr"
    assert main(command(run, checkpoints, output)) == 0
    found = open_features(output)
    assert found.poolings == ("prompt",)
    assert len(found) == 3 * GROUPS
    states = found.read(0, len(found), poolings=["prompt"])
    last = {}
    for step, folder in checkpoints.items():
        model, _ = load_policy(folder)
        blocks = []
        handle = model.model.norm.register_forward_pre_hook(lambda _m, inputs, blocks=blocks: blocks.append(inputs[0]))
        prompts = run.responses["prompt_ids"].iloc[::GROUP].tolist()
        with torch.no_grad():
            for prompt in prompts:
                model(torch.tensor([prompt]))
        handle.remove()
        last[step] = torch.cat([block[:, -1] for block in blocks]).numpy()
    early = 2 * GROUPS
    np.testing.assert_allclose(states[:early], last[2][:early], atol=2e-5)
    np.testing.assert_allclose(states[early:], last[3][early:], atol=2e-5)
    assert np.abs(last[2] - last[3]).max() > 1e-2


def test_prompts_of_another_schedule_are_refused(run, checkpoints, tmp_path, capsys):
    """Rows of prompts count from 0 and have one token each, whatever was asked."""
    features = tmp_path / "prompts.zarr"
    main(command(run, checkpoints, features))
    questions = [f"q-{(row // GROUP + 1) % 45}" for row in range(len(run.responses))]
    other = small_run(tmp_path / "other")
    other.responses["question_id"] = questions
    other.write()
    settings = SETTINGS.model_copy(update={"targets": ("question",), "batch_size": 4})
    flags = ["companions", f"--settings={settings.model_dump_json()}", f"--features={features}", "--prompts"]
    flags += [f"--{name.split('.')[0]}={other.folder / name}" for name in ("rollouts", "questions.parquet")]
    assert main([*flags, "--steps", "3", f"--output={tmp_path / 'out'}"]) == 2
    assert (
        "prompts.zarr: question_id is q-0 at row 0, the rollouts have q-1 (60 such row(s))" in capsys.readouterr().err
    )
    assert not (tmp_path / "out").exists()


def test_companions_of_prompts_are_selected_by_group_accuracy(run, checkpoints, tmp_path):
    main(command(run, checkpoints, tmp_path / "prompts.zarr"))
    settings = SETTINGS.model_copy(update={"targets": ("question",), "batch_size": 4})
    flags = ["companions", f"--settings={settings.model_dump_json()}", f"--features={tmp_path / 'prompts.zarr'}"]
    flags += [f"--{name.split('.')[0]}={run.folder / name}" for name in ("rollouts", "questions.parquet")]
    flags += ["--steps", "3", f"--output={tmp_path / 'out'}", f"--cost={tmp_path / 'cost.json'}"]
    assert main([*flags, "--prompts"]) == 0
    companions = load_companions(tmp_path / "out/steps-3")
    assert companions.spec.poolings == ("prompt",)
    assert companions.spec.training_responses + companions.spec.validation_responses == 3 * GROUPS
    prompts = read_prompts(run.folder / "rollouts", run.folder / "questions.parquet", 3)
    history = pd.read_csv(tmp_path / "out/steps-3/history.csv")
    held_out = run.held_out(prompts)
    assert companions.spec.validation_responses == held_out.sum() > 0
    states = open_features(tmp_path / "prompts.zarr").read(0, 3 * GROUPS, poolings=["prompt"])
    confidence = companions.predict(states[held_out])
    for member, (_, seed) in enumerate(companions.members):
        mine = history[history["seed"] == seed].set_index("pass")["validation_mse"]
        assert companions.spec.best_pass[member] == mine.idxmin()
        error = np.mean((confidence[member] - prompts["group_accuracy"].to_numpy()[held_out]) ** 2)
        np.testing.assert_allclose(error, mine.min(), rtol=1e-5)
    assert '"items": 3' in (tmp_path / "cost.json").read_text()
    # features of responses are not those of prompts
    assert main([*flags]) == 2
