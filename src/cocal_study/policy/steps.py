"""What happens between the steps of a training: times and progress are recorded, and stages and checkpoints saved."""

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from transformers import TrainerCallback

from cocal.runtime.progress import Progress
from cocal.store import label_folder, write_text

if TYPE_CHECKING:
    from cocal_study.policy.trainer import RecordingGRPOTrainer


class StepCallback(TrainerCallback):
    """Records each rollout step's time, shows progress, and saves the policy of each stage as a checkpoint."""

    def __init__(self, trainer: "RecordingGRPOTrainer"):
        self._trainer = trainer
        self._updates = trainer._policy.updates_per_step
        self._progress: Progress | None = None
        self._began = 0.0
        self._spent = 0.0

    def on_train_begin(self, args, state, control, **kwargs):
        if self._trainer.accelerator.is_main_process:
            done, steps = state.global_step // self._updates, state.max_steps // self._updates
            self._progress = Progress("step", steps, done=done)

    def on_step_begin(self, args, state, control, **kwargs):
        self._began = time.monotonic()

    def on_step_end(self, args, state, control, **kwargs):
        trainer = self._trainer
        trainer.summary += trainer.agreement.compare((state.global_step - 1) // self._updates + 1, trainer.accelerator)
        self._spent += time.monotonic() - self._began
        if state.global_step % self._updates:
            return
        step = state.global_step // self._updates
        if trainer._recorder is not None:
            spent = self._spent - trainer.states_seconds
            trainer._recorder.seconds.record(step, spent, trainer.states_seconds, trainer.agreement.difference)
        self._spent = trainer.states_seconds = 0.0
        if self._progress is not None:
            self._progress.add(detail=trainer.summary)
        if step in trainer._stages:
            self._save(step, trainer._stages[step])
        if state.global_step >= state.max_steps:
            control.should_save = False  # nothing is left to resume but the publication, which the last step precedes

    def _save(self, step: int, folder: Path) -> None:
        """Save whole weights in the format of the stage, whether or not those to resume from are whole."""
        trainer = self._trainer
        partial = folder.with_name(f".{folder.name}.partial")
        weights = trainer.accelerator.get_state_dict(trainer.model)  # every process takes part where they are sharded
        if trainer.accelerator.is_main_process:  # the others wait, so as few bytes as may be are written
            shutil.rmtree(partial, ignore_errors=True)  # a killed run may have left one
            tied, dtype = trainer.accelerator.unwrap_model(trainer.model).all_tied_weights_keys, trainer._stage_dtype
            weights = {name: tensor.to("cpu", dtype) for name, tensor in weights.items() if name not in tied}
            trainer._save(str(partial), state_dict=weights)
            config = json.loads((partial / "config.json").read_text(encoding="utf-8"))
            config["dtype"] = str(dtype).removeprefix("torch.")  # transformers states the model's
            write_text(partial / "config.json", json.dumps(config, indent=2) + "\n")
            label_folder(partial, trainer._stage_attributes[step])
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
        trainer.accelerator.wait_for_everyone()

    def on_save(self, args, state, control, **kwargs):
        self._trainer.accelerator.wait_for_everyone()  # each process writes a part
        if state.is_world_process_zero:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            if self._trainer._recorder is not None:
                self._trainer._recorder.wait()  # a run that resumes after these rollouts does not sample them again
            self._trainer.behind.start(lambda: label_folder(folder, {}))
