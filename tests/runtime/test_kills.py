"""A kill at any operation on files: what is left is whole, is recognised, or is swept by the next run."""

import errno
import fcntl
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from transformers.trainer_pt_utils import safe_globals

from cocal.config.policy import PolicySettings
from cocal.models.resumable import COMPLETE, complete, last_resumable
from cocal.policy.trainer import RecordingGRPOTrainer
from cocal.runtime import lock
from cocal.store import atomic_path, label_folder, write_text
from cocal.store.run_folder import RunFolder
from kills import killed_at_each_operation
from micro_trainer import micro_trainer

SETTINGS = PolicySettings(
    dataset="micro-train",
    steps=3,
    stages=(3,),
    questions_per_step=3,
    responses_per_question=4,
    micro_batch=4,
    max_response_length={"grpo": 16},
)


@pytest.fixture
def trainer(tmp_path, micro_checkpoint) -> RecordingGRPOTrainer:
    """A trainer of the micro policy, whose weights tell the step."""
    trainer = micro_trainer(tmp_path / "run", micro_checkpoint, SETTINGS)
    trainer.create_optimizer_and_scheduler(SETTINGS.steps)
    return trainer


def _save(trainer: RecordingGRPOTrainer, step: int) -> None:
    """Save a checkpoint as the training loop does after an update."""
    trainer.state.global_step = step
    with torch.no_grad():
        trainer.model.lm_head.weight.fill_(step)
    trainer.control.should_log, trainer.control.should_save = False, True
    trainer._maybe_log_save_evaluate(None, None, trainer.model, None, None, None, None)


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


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "trainer_state.json", "rng_state.pth", COMPLETE])
def test_a_flipped_bit_in_a_checkpoint_lets_the_run_resume_from_the_one_before(trainer, tmp_path, name, caplog):
    """A flipped bit in weights, or a truncated state, would change the policy or fail for ever."""
    for step in (1, 2):
        _save(trainer, step)
    file = tmp_path / "run/checkpoint-2" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)
    assert _step_of(last_resumable(tmp_path / "run")) == 1
    assert f"{tmp_path / 'run/checkpoint-2'}: deleted, because it is damaged" in caplog.text


def test_a_checkpoint_is_marked_after_the_rollouts_before_it_are_on_disk(trainer, tmp_path):
    """A run that resumes from it does not sample them again."""
    marked = []
    folder = tmp_path / "run/checkpoint-1"
    trainer._recorder = SimpleNamespace(wait=lambda: marked.append((folder / COMPLETE).exists()))
    _save(trainer, 1)
    assert marked == [False]
    assert (folder / COMPLETE).exists()


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
        complete(folder)
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
    "without its mark": lambda folder: (folder / COMPLETE).unlink(),
    "with the empty mark of an earlier version": lambda folder: (folder / COMPLETE).write_text(""),
    "with a mark that names nothing": lambda folder: (folder / COMPLETE).write_text("{}"),
    "with a mark of another kind": lambda folder: (folder / COMPLETE).write_text("[1]"),
    "without a file": lambda folder: (folder / "weights").unlink(),
    "without a folder": lambda folder: shutil.rmtree(folder / "part"),
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


WORK = {"table", "store/a", "one", "two", "three"}
"""Files of a run. A folder's files are deleted in no certain order, so there are several beside its mark."""


def _run_folder(path: Path, digest: str) -> RunFolder:
    """A run folder with work in it, that no process holds."""
    run = RunFolder(path, digest)
    for name in WORK:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(digest)
    lock.release(path)
    return run


@pytest.mark.parametrize("end", ["published", "emptied for other settings"])
def test_a_run_never_resumes_from_half_a_folder(tmp_path, end):
    """A kill while the folder is deleted: the next run of the old settings finds all of the work or none."""
    path, kept = tmp_path / "run", []

    def ended():
        if end == "published":
            RunFolder(path, "old").publish({"table": tmp_path / "out/table", "store": tmp_path / "out/store"})
        else:
            RunFolder(path, "new")

    _run_folder(path, "old")
    for _ in killed_at_each_operation(ended):
        again = RunFolder(path, "old")
        files = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()} - {"settings.digest"}
        assert files == (WORK if again.resumed else set())
        kept.append(again.resumed)
        lock.release(path)
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        _run_folder(path, "old")
    assert {*kept} == {True, False}
    assert kept == sorted(kept, reverse=True)
    assert path.exists() == (end != "published")
    assert not list(tmp_path.glob(".run.discarded"))
    if end == "published":
        assert [file.read_text() for file in sorted(tmp_path.glob("out/**/*")) if file.is_file()] == ["old"] * 2


@pytest.mark.parametrize("folder", [False, True], ids=["file", "folder"])
def test_the_next_write_sweeps_what_a_killed_one_has_left(tmp_path, folder):
    def write(text):
        with atomic_path(tmp_path / "target") as partial:
            if folder:
                partial.mkdir()
                label_folder(partial, {"stage": "backbone"})
            (partial / "inner" if folder else partial).write_text(text)

    found = []
    write("old")
    for _ in killed_at_each_operation(lambda: write("new")):
        found += [file.read_text() for file in tmp_path.glob("target" + "/inner" * folder)]
        write("old")
        assert [entry.name for entry in tmp_path.iterdir()] == ["target"]
    assert found == sorted(found, reverse=True)
    assert {*found} == {"old", "new"}


def test_the_scratch_folder_of_a_living_process_is_not_swept(tmp_path):
    with atomic_path(tmp_path / "target") as partial:
        partial.write_text("slow")
        write_text(tmp_path / "target", "fast")
        assert partial.exists()
    assert (tmp_path / "target").read_text() == "slow"


def test_only_scratch_folders_of_the_same_target_are_swept(tmp_path):
    """A download that can be resumed, and the scratch folders of other targets."""
    (tmp_path / ".target.partial").touch()
    for name in (".target.b.abcdefgh.partial", ".other.abcdefgh.partial", ".target.abcdefgh.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").touch()
    write_text(tmp_path / "target", "new")
    left = {".target.partial", ".target.b.abcdefgh.partial", ".other.abcdefgh.partial", "target"}
    assert {entry.name for entry in tmp_path.iterdir()} == left


def test_nothing_is_swept_where_there_are_no_locks(tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    (tmp_path / ".target.abcdefgh.partial").mkdir()
    monkeypatch.setattr(fcntl, "flock", refuse)
    write_text(tmp_path / "target", "new")
    assert (tmp_path / "target").read_text() == "new"
    assert (tmp_path / ".target.abcdefgh.partial").exists()
