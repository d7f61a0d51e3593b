"""Recording of anybody's GRPO training with TRL: rollouts, their states, and a companion that learns inside.

from cocal.rollouts.trl.recording import Recording, RolloutRecording

class Trainer(RolloutRecording, GRPOTrainer):
    pass

trainer = Trainer(..., recording=Recording(folder="rollouts", reward="accuracy_reward"))
"""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from transformers import TrainerCallback

from cocal.answers.judge import Verdicts
from cocal.companion.settings import OnlineSettings
from cocal.companion.stepwise import OnlineLearner
from cocal.errors import ConfigError, ContractError
from cocal.features.forward import resolve_layers
from cocal.features.store import NumberFormat, create_features
from cocal.models.loading import text_config
from cocal.rewards import Rewards
from cocal.rollouts.recorded import StepWriter
from cocal.rollouts.trl.capture import RolloutCapture
from cocal.store import provenance

STATE = "online.pt"
"""Name of the file with the state of the companions in a checkpoint of the training."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What is kept of a training, and where."""

    folder: str | Path
    """Folder that gets `rollouts/step-00001.parquet` and so on, `features.zarr` and `online`."""
    reward: str | int = 0
    """Name or place of the reward function that says whether a response is correct."""
    correct_above: float = 0.0
    """A reward above this number means a correct response; no reward (None) means a wrong one."""
    states: bool = True
    """Whether the pooled states of all rollouts are kept in `features.zarr`."""
    layers: Literal["final", "all"] | Sequence[int] = "final"
    """Blocks whose states are kept: "final", "all", or their zero-based indices."""
    number_format: NumberFormat = "bfloat16"
    """Number format of the states."""
    online: OnlineSettings | None = None
    """Companions that learn from every rollout step inside the training, for which no states need be kept."""
    dataset: str = "rollouts"
    """Name of the question set in the tables."""


class RolloutRecording(RolloutCapture):
    """Mixin that records what a `GRPOTrainer` samples; the training itself is not changed.

    The rollouts are recorded with their exact token ids, raw log-probabilities and verdicts, in the contract that
    `cocal fit` reads (`cocal.store.contracts.RESPONSES`). A column `question_id` of the data set names the questions;
    without it, a digest of the prompt does. A training that is resumed from a checkpoint goes on with its recording.

    Args:
        recording: What is recorded, and where.
        **kwargs: Arguments of GRPOTrainer.

    Raises:
        ConfigError: if there is no such reward function, or a rollout step is not a whole number of updates.
        ContractError: if the folder holds rollouts of another training.
    """

    def __init__(self, *args: Any, recording: Recording, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._recording = recording
        self._folder = Path(recording.folder)
        names = self.reward_func_names
        place = names.index(recording.reward) if recording.reward in names else recording.reward
        if not isinstance(place, int) or not 0 <= place < len(names):
            raise ConfigError(f"recording.reward: there is no reward function {place!r}; there are {', '.join(names)}")
        self._reward_place = place
        generated = self.args.steps_per_generation * self.num_iterations
        if generated % self.args.gradient_accumulation_steps:
            raise ConfigError(
                f"steps_per_generation x num_iterations = {generated} is not a multiple of "
                f"gradient_accumulation_steps = {self.args.gradient_accumulation_steps}, so that a rollout step ends "
                "within an update; change one of them"
            )
        self._updates = generated // self.args.gradient_accumulation_steps
        text = text_config(self.model.config)
        self._hidden = text.hidden_size
        if recording.states:
            self._layers = resolve_layers(recording.layers, text.num_hidden_layers)
        elif recording.online is not None:
            self._layers = (text.num_hidden_layers - 1,)
        self._states_dtype = getattr(torch, recording.number_format)
        settings = {name: value for name, value in vars(recording).items() if name != "folder"}
        self._attributes = provenance("record", settings, experience="rollouts")
        self.add_callback(_Recorder(self))

    def _generate_and_score_completions(self, inputs):
        """TRL's batch, unchanged; in training, its rollouts are recorded."""
        batch = super()._generate_and_score_completions(inputs)
        if self.model.training:
            captured = zip(self._captured(batch), inputs, strict=True)
            rows = self._gathered([row | {"question_id": _question(example)[0]} for row, example in captured])
            rewards = self._rewards_of_step[:, self._reward_place].cpu().numpy().astype(np.float64)
            if self.accelerator.is_main_process:
                step, dataset = self.state.global_step // self._updates + 1, self._recording.dataset
                verdicts = Verdicts(rewards > self._recording.correct_above, ~np.isnan(rewards))
                self._recorded(rows, verdicts, Rewards(rewards, None), step=step, dataset=dataset)
                if self.online is not None and self.online.summary:
                    logging.info("rollout step %d: companion %s", step, self.online.summary)
        return batch

    def _begin(self) -> None:
        """Open or restore the recorder and the learner, in the main process."""
        recording, resumed = self._recording, self.state.global_step > 0
        tables = sorted((self._folder / "rollouts").glob("step-*.parquet"))
        if tables and not resumed:
            raise ContractError(
                f"{tables[0]}: the folder holds the rollouts of another training; give an empty folder, or resume that "
                "training (resume_from_checkpoint)"
            )
        features = None
        if recording.states:
            store, rows = self._folder / "features.zarr", self.args.generation_batch_size
            features = create_features(
                store,
                responses=-(-self.state.max_steps // self._updates) * rows,
                rows_per_chunk=rows,
                layers=self._layers,
                hidden=self._hidden,
                dtype=recording.number_format,
                attributes=self._attributes,
                resume=store.exists(),  # a resumed training goes on with the one that it began
            )
        self._recorder = StepWriter(self._folder, self._attributes, features)
        if recording.online is not None:
            asked = [_question(row) for row in self.train_dataset]
            questions = pd.DataFrame(asked, columns=["question_id", "question"]).drop_duplicates()
            form = recording.number_format
            self.online = OnlineLearner(recording.online, questions, self._layers[-1], self._hidden, form)
            if resumed:
                self.online.restore(self._resumed_from / STATE)

    def _load_optimizer_and_scheduler(self, checkpoint):
        """Do as TRL does, and keep the checkpoint's folder, which need not lie in that of the output."""
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:  # versions of transformers before 5 call this without one, too
            self._resumed_from = Path(checkpoint)


class _Recorder(TrainerCallback):
    """Begins the recording, saves the companion with every checkpoint, and writes it at the end."""

    def __init__(self, trainer: RolloutRecording):
        self._trainer = trainer

    def on_train_begin(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            self._trainer._begin()

    def on_step_end(self, args, state, control, **kwargs):
        if state.is_world_process_zero:  # before a checkpoint can be saved, from which a training is resumed
            self._trainer._recorder.wait()

    def on_save(self, args, state, control, **kwargs):
        if self._trainer.online is not None:
            checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            self._trainer.online.save(checkpoint / STATE)

    def on_train_end(self, args, state, control, **kwargs):
        if self._trainer.online is not None:
            self._trainer.online.write(self._trainer._folder / "online", self._trainer._attributes)


def _question(row: dict[str, Any]) -> tuple[str, str]:
    """Id and text of the question in a row of a data set; the text of a chat is that of its messages as JSON."""
    prompt, name = row["prompt"], row.get("question_id")
    text = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True)
    return (hashlib.sha256(text.encode()).hexdigest()[:16] if name is None else str(name)), text
