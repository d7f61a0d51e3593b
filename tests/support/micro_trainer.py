"""Trainings of the micro policy: a trainer for tests of its parts, whole runs, and the words of `cocal train`."""

import json
from pathlib import Path

import pandas as pd
import torch
from datasets import Dataset

from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings
from cocal.models.loading import load_policy
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal_study.config.features import FeatureSettings
from cocal_study.config.policy import PolicySettings
from cocal_study.policy.recorder import Outputs
from cocal_study.policy.train import train_policy, trl_arguments
from cocal_study.policy.trainer import RecordingGRPOTrainer
from cocal_study.questions.prompts import Prompts
from cocal_study.store.contracts import QUESTIONS


def small_settings(**changes) -> PolicySettings:
    """Settings of one step with twelve rollouts, in micro-batches of four."""
    settings = {"steps": 1, "stages": (1,), "questions_per_step": 3, "responses_per_question": 4, "micro_batch": 4}
    length = {"max_response_length": {"grpo": 16}}
    return PolicySettings(dataset="micro-train", **settings | length | changes)


def micro_trainer(folder: Path, checkpoint: Path, settings: PolicySettings) -> RecordingGRPOTrainer:
    """A trainer that records nothing and gives no reward."""
    model, tokenizer = load_policy(checkpoint)
    return RecordingGRPOTrainer(
        recorder=None,
        layers=(),
        policy=settings,
        algorithm="grpo",
        stages={},
        dtype=torch.float32,
        attributes={},
        model=model,
        processing_class=tokenizer,
        reward_funcs=[lambda completions, **_: [0.0] * len(completions)],
        args=trl_arguments(settings, "grpo", folder),
        train_dataset=Dataset.from_dict({"prompt": ["1"] * 12, "question_id": ["q"] * 12}),
    )


def train_words(folder: Path, settings: dict, checkpoint: Path, questions: Path, **flags: object) -> list[str]:
    """The flags of `cocal train` for a run with results in a folder and settings that differ from the defaults; of the
    further flags, `states` stores those of all blocks."""
    flags = {"algorithm": "grpo", **flags}
    if flags.pop("states", False):
        flags |= {"features": '{"layers": "all", "dtype": "float32"}', "output_features": folder / "rollouts.zarr"}
    places = {"run_folder": folder / "run", "stages": folder / "stages", "rollouts": folder / "rollouts"}
    given = {"settings": json.dumps({"dataset": "micro-train"} | settings), "prompts": "tiny", "base": checkpoint}
    given |= {"questions": questions, "cost": folder / "cost.json", **places, **flags}
    return [str(word) for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)]


def train(
    folder: Path,
    settings: PolicySettings,
    checkpoint: Path,
    questions: Path,
    *,
    algorithm: str = "grpo",
    verifier: Verifier | None = None,
    states: bool = False,
) -> pd.DataFrame:
    """Train in this process on the set in the folder `questions`; returns the rollouts. The results are step-N,
    rollouts and, with `states`, features.zarr with those of the final block."""
    store = folder / "features.zarr" if states else None
    stages = {step: folder / f"step-{step}" for step in settings.stages}
    with verifier or Verifier(VerifierSettings()) as judge:
        train_policy(
            settings,
            algorithm,
            base=checkpoint,
            questions=read_frame(questions / "micro-train.parquet", QUESTIONS),
            prompts=Prompts("tiny"),
            features=FeatureSettings(dtype="float32"),
            verifier=judge,
            run_folder=folder / "run",
            run_digest="digest",
            outputs=Outputs(stages, folder / "rollouts", store),
        )
    return read_frame(folder / "rollouts", RESPONSES)
