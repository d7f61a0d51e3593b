"""A trainer of the micro policy outside of a training, for tests of its parts."""

from pathlib import Path

import torch
from datasets import Dataset

from cocal.config.policy import PolicySettings
from cocal.models.loading import load_policy
from cocal.policy.train import trl_arguments
from cocal.policy.trainer import RecordingGRPOTrainer


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
