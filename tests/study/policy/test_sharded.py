"""Training with sharded weights (policy.trl.shard): two processes under FSDP2 over gloo, all algorithms, one killed.

sharded/train.py is `cocal train` with a stand-in for vLLM that refuses weights of other names or shapes.
"""

import os
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

import started
from cocal.features.store import open_features
from cocal.models.loading import load_policy
from cocal.models.text import plain_texts
from cocal.runtime.numerics import PORTABLE
from cocal.store import read_document, read_frame
from cocal.store.contracts import RESPONSES
from cocal_study.config.policy import TrlSettings
from cocal_study.policy.launch import train_command
from micro_trainer import train_words
from passed import check_recorded
from rewarded_questions import write_rewarded
from update_by_hand import advantages, gradients

pytestmark = pytest.mark.long

SCRIPT = Path(__file__).parent / "sharded/train.py"
SHARDED = {"devices": 2, "shard": True, "vllm": True}
SETTINGS = {
    "algorithms": [],
    "dataset": "micro-train",
    "steps": 4,
    "stages": [2, 4],
    "questions_per_step": 6,
    "responses_per_question": 4,
    "max_response_length": {"grpo": 20},
    "learning_rate": 1e-3,
    "micro_batch": 6,
    "checkpoint_every": 1,
    "trl": SHARDED,
}


@pytest.fixture(scope="module")
def command(tmp_path_factory, micro_policy, micro_questions, micro_checkpoint):
    """The words of a training whose results lie in a folder."""
    path = tmp_path_factory.mktemp("rewarded") / "micro-train.parquet"
    questions = write_rewarded(path, micro_policy, micro_questions / "micro-train.parquet")

    def words(folder: Path, algorithm: str = "grpo", **changes) -> list[str]:
        start = train_command(TrlSettings(**SHARDED), per_node="")
        assert start[-3:] == ["--module", "cocal", "train"]
        more = {"algorithm": algorithm, "states": True}
        return [*start[:-3], str(SCRIPT), *train_words(folder, SETTINGS | changes, micro_checkpoint, questions, **more)]

    return words


ENVIRONMENT = {name: text for name, text in os.environ.items() if name not in PORTABLE}
ENVIRONMENT["TEST_PRECISION"] = "no"
"""FSDP frees the memory of gathered weights, which it cannot where portable products have looked at it."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory, command) -> Path:
    """Results of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("sharded")
    done = subprocess.run(command(folder), check=False, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr[-5000:]
    return folder


def test_stages_are_ordinary_checkpoints_and_rollouts_have_the_states_of_their_policy(trained):
    rollouts = read_frame(trained / "rollouts", RESPONSES)
    assert 0 < rollouts["correct"].mean() < 1
    third = rollouts[rollouts["step"] == 3]
    check_recorded(load_policy(trained / "stages/step-2"), third, open_features(trained / "rollouts.zarr"))


@pytest.mark.parametrize("algorithm", ["rlcr", "dcpo"])
def test_the_first_update_of_a_coupled_algorithm_is_that_by_hand(tmp_path, algorithm, micro_checkpoint, command):
    """Its advantages need the stated confidences of both processes; Adam's first step shows the gradient's signs."""
    rate, decay, missing, weight = 1e-3, 0.1, 0.25, 0.75
    changes = {
        "steps": 1,
        "stages": [1],
        "max_response_length": {"grpo": 16, "rlcr": 40, "dcpo": 30},
        "temperature": 0.8,
        "loss": "grpo",
        "learning_rate": rate,
        "weight_decay": decay,
        "max_gradient_norm": 100.0,
        "invalid_confidence": missing,
        "dcpo_group_weight": weight,
    }
    started.said(command(tmp_path, algorithm, **changes), ENVIRONMENT)
    before, after = load_policy(micro_checkpoint), load_policy(tmp_path / "stages/step-1")
    rollouts = read_frame(tmp_path / "rollouts", RESPONSES)
    assert 0 < rollouts["confidence"].notna().mean() < 1, "both kinds of response are needed"
    assert 0 < rollouts["correct"].mean() < 1

    def decode(ids):
        return plain_texts(before.tokenizer, [list(ids)])[0]

    by_hand = advantages(algorithm, rollouts, decode, SETTINGS["responses_per_question"], missing, weight)
    expected = gradients(before.model, rollouts, by_hand, "grpo", temperature=0.8)
    weights = dict(after.model.named_parameters())
    checked = 0
    for name, weight_before in before.model.named_parameters():
        gradient = expected[name]
        large = gradient.abs() > 1e-4  # the signs of smaller ones are rounding
        kept = weight_before.detach() * (1 - rate * decay * ("norm" not in name))
        step = kept - rate * gradient.sign()
        torch.testing.assert_close(weights[name].detach()[large], step[large], atol=2e-6, rtol=1e-5)
        checked += int(large.sum())
    assert checked > 1000


def test_log_probabilities_of_bfloat16_passes_are_not_rounded_to_bfloat16(tmp_path, command):
    """By TRL's own method, as on a GPU, also before the four updates of a step. The script looks at their format."""
    environment = ENVIRONMENT | {"TEST_PRECISION": "bf16", "TEST_FUSED_HEAD": "yes"}
    changes = {"steps": 2, "stages": [2], "max_response_length": {"grpo": 20, "dcpo": 30}, "micro_batch": 3}
    assert "all rows of a step" in started.said(command(tmp_path, "dcpo", updates_per_step=4, **changes), environment)
    means, _ = zip(*read_document(tmp_path / "cost.json")["vllm_differences"], strict=True)
    assert 0 < min(means) <= max(means) < 0.02


def test_a_killed_run_resumes_from_shards(tmp_path, trained, command):
    """Killed in step 3: the same rollouts, features and policies in the end, from checkpoints without whole weights."""
    words = command(tmp_path)
    started.kill_when(tmp_path / "run/rollouts/step-00003.parquet", words, ENVIRONMENT)
    checkpoint = max(mark.parent for mark in (tmp_path / "run").glob("checkpoint-*/provenance.json"))
    for part in ("pytorch_model_fsdp_0", "optimizer_0"):
        shards = sorted(file.name for file in (checkpoint / part).glob("*.distcp"))
        assert shards == ["__0_0.distcp", "__1_0.distcp"], "each process writes its own"
    assert not list(checkpoint.rglob("*.safetensors"))
    assert not list(checkpoint.rglob("*.bin")) or [f.name for f in checkpoint.rglob("*.bin")] == ["training_args.bin"]

    assert f"resuming from {checkpoint}" in started.said(words, ENVIRONMENT)
    once, again = (read_frame(folder / "rollouts", RESPONSES) for folder in (trained, tmp_path))
    pd.testing.assert_frame_equal(again, once)
    once, again = (open_features(folder / "rollouts.zarr") for folder in (trained, tmp_path))
    np.testing.assert_array_equal(again.read(0, len(again)), once.read(0, len(once)))
    first, last = (load_file(trained / f"stages/step-{step}/model.safetensors") for step in (2, 4))
    assert not torch.equal(first["lm_head.weight"], last["lm_head.weight"]), "nothing was learnt"
    for name, weights in load_file(tmp_path / "stages/step-4/model.safetensors").items():
        assert torch.equal(weights, last[name]), name
