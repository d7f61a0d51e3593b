"""Checkpoints from which a killed training resumes: the newest whole one, whatever a kill or a disk has left."""

import json
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from transformers.trainer_pt_utils import safe_globals
from trl import GRPOTrainer

from cocal.store.folders import label_folder
from cocal.store.origin import PROVENANCE
from cocal.store.run_folder import WriteBehind
from cocal_study.policy import trainer as training
from cocal_study.policy.resumable import last_resumable
from cocal_study.policy.trainer import RecordingGRPOTrainer
from kills import killed_at_each_operation
from micro_trainer import micro_trainer, small_settings

SETTINGS = small_settings(steps=3, stages=(3,))


@pytest.fixture
def trainer(tmp_path, micro_checkpoint) -> RecordingGRPOTrainer:
    """A trainer of the micro policy, whose weights tell the step."""
    trainer = micro_trainer(tmp_path / "run", micro_checkpoint, SETTINGS)
    trainer.create_optimizer_and_scheduler(SETTINGS.steps)
    return trainer


def _save(trainer: RecordingGRPOTrainer, step: int) -> None:
    """Save a checkpoint as the training loop does after an update, and wait for its mark."""
    trainer.behind = WriteBehind()  # a forked process has no threads of its parent
    trainer.state.global_step = step
    with torch.no_grad():
        trainer.model.lm_head.weight.fill_(step)
    trainer.control.should_log, trainer.control.should_save = False, True
    trainer._maybe_log_save_evaluate(None, None, trainer.model, None, None, None, None)
    trainer.behind.wait()


def _step_of(checkpoint: Path) -> int:
    """The step of a checkpoint, all parts of which are read."""
    weights = load_file(checkpoint / "model.safetensors")["lm_head.weight"]
    (step,) = weights.unique().tolist()
    assert json.loads((checkpoint / "trainer_state.json").read_text())["global_step"] == step
    assert "param_groups" in torch.load(checkpoint / "optimizer.pt", weights_only=True)
    torch.load(checkpoint / "scheduler.pt", weights_only=True)
    with safe_globals():  # NumPy's random state, as the trainer itself reads it
        torch.load(checkpoint / "rng_state.pth", weights_only=True)
    return int(step)


@pytest.mark.slow
def test_a_kill_while_checkpoints_are_saved_and_rotated_leaves_a_whole_one(trainer, tmp_path):
    """TRL's own code saves the checkpoint of step 3 beside that of step 2, in the place of that of step 1."""
    run, before = tmp_path / "run", tmp_path / "before"
    _save(trainer, 1)
    _save(trainer, 2)
    shutil.copytree(run, before)
    steps, beside = [], []
    for _ in killed_at_each_operation(lambda: _save(trainer, 3)):
        beside.append(sum(entry.name.startswith("checkpoint") for entry in run.iterdir()))
        steps.append(_step_of(last_resumable(run)))
        shutil.rmtree(run)
        shutil.copytree(before, run)
    assert _step_of(last_resumable(run)) == 3
    assert sorted(entry.name for entry in run.glob("checkpoint-*")) == ["checkpoint-2", "checkpoint-3"]
    assert max(beside) == 2, "there is room for two"
    assert steps == sorted(steps)
    assert steps.count(2) > 20, "the old checkpoint and the new one have this many files"


def test_a_checkpoint_is_marked_after_the_rollouts_before_it_are_on_disk(trainer, tmp_path):
    """A run that resumes from it does not sample them again."""
    marked = []
    folder = tmp_path / "run/checkpoint-1"
    trainer._recorder = SimpleNamespace(wait=lambda: marked.append((folder / PROVENANCE).exists()))
    _save(trainer, 1)
    assert marked == [False]
    assert (folder / PROVENANCE).exists()


def test_checkpoints_are_marked_while_the_training_goes_on(trainer, tmp_path, monkeypatch):
    """And nothing is deleted before: what has no mark yet would be taken for what a killed run has left."""
    run, ended = tmp_path / "run", threading.Event()

    def late(checkpoint, attributes):
        assert ended.wait(60)
        label_folder(checkpoint, attributes)

    for step in (1, 2):
        _save(trainer, step)
    monkeypatch.setattr(training, "label_folder", late)
    state = SimpleNamespace(global_step=3, is_world_process_zero=True)
    shutil.copytree(run / "checkpoint-2", run / "checkpoint-3", ignore=shutil.ignore_patterns(PROVENANCE))
    training.StepCallback(trainer).on_save(trainer.args, state, trainer.control)
    assert not (run / "checkpoint-3" / PROVENANCE).exists()

    monkeypatch.setattr(GRPOTrainer, "_save_checkpoint", lambda *_: None)
    threading.Timer(0.3, ended.set).start()
    trainer._save_checkpoint(trainer.model, None)
    assert [folder.name for folder in run.glob("checkpoint-*")] == ["checkpoint-3"]
    with trainer.behind:
        training.StepCallback(trainer).on_save(trainer.args, state, trainer.control)
    assert (run / "checkpoint-3" / PROVENANCE).exists()


def test_there_is_no_checkpoint_after_the_last_step(trainer):
    """Nothing is left to resume, and at paper size it would take as long as everything that follows."""
    trainer.state.save_steps, trainer.state.max_steps = 1, SETTINGS.steps
    for step, due in ((SETTINGS.steps - 1, True), (SETTINGS.steps, False)):
        trainer.state.global_step = step
        control = trainer.callback_handler.on_step_end(trainer.args, trainer.state, trainer.control)
        assert control.should_save == due


@pytest.fixture
def checkpoints(tmp_path) -> Path:
    """A folder with a complete checkpoint of step 4 and one of step 10, which was saved when the older one stayed."""
    for step in (10, 4):
        folder = tmp_path / "run" / f"checkpoint-{step}"
        (folder / "part").mkdir(parents=True)
        (folder / "weights").write_bytes(b"0123456789")
        (folder / "part" / "state").write_bytes(b"012")
        label_folder(folder, {})
        shutil.move(folder, tmp_path / folder.name)
    for step in (4, 10):
        shutil.move(tmp_path / f"checkpoint-{step}", tmp_path / "run")
    return tmp_path / "run"


def test_the_newest_complete_checkpoint_is_resumed(checkpoints):
    """By number and not by name; what has another name is left alone."""
    (checkpoints / "checkpoint-best").mkdir()
    assert last_resumable(checkpoints) == checkpoints / "checkpoint-10"
    assert last_resumable(checkpoints / "none") is None
    assert sorted(entry.name for entry in checkpoints.iterdir()) == ["checkpoint-10", "checkpoint-4", "checkpoint-best"]


DAMAGES = {
    "without its mark": lambda folder: (folder / PROVENANCE).unlink(),
    "with a mark that names nothing": lambda folder: (folder / PROVENANCE).write_text("{}"),
    "with a flipped bit": lambda folder: (folder / "weights").write_bytes(b"0123456780"),
    "without a file": lambda folder: (folder / "weights").unlink(),
    "with a file that is cut off": lambda folder: (folder / "part" / "state").write_bytes(b"01"),
    "with a file in the place of a folder": lambda folder: (shutil.rmtree(folder / "part"), (folder / "part").touch()),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_checkpoint_that_is_not_whole_is_deleted_and_the_older_one_resumed(checkpoints, damage, caplog):
    damage(checkpoints / "checkpoint-10")
    assert last_resumable(checkpoints) == checkpoints / "checkpoint-4"
    assert [entry.name for entry in checkpoints.iterdir()] == ["checkpoint-4"]
    assert f"{checkpoints / 'checkpoint-10'}: deleted" in caplog.text


def test_a_kill_while_an_incomplete_checkpoint_is_deleted_changes_nothing(checkpoints, tmp_path):
    (checkpoints / "checkpoint-10" / "weights").unlink()
    shutil.copytree(checkpoints, tmp_path / "before")
    for _ in killed_at_each_operation(lambda: last_resumable(checkpoints)):
        assert last_resumable(checkpoints) == checkpoints / "checkpoint-4"
        shutil.rmtree(checkpoints)
        shutil.copytree(tmp_path / "before", checkpoints)
    assert [entry.name for entry in checkpoints.iterdir()] == ["checkpoint-4"]
