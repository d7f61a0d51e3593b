"""Policy training on a GPU, killed and resumed: rollouts, states and stages; vLLM and FSDP2 where vLLM is."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import started
from cocal.features.forward import score
from cocal.features.store import open_features
from cocal.models.loading import load_policy
from cocal.models.text import batches_of_rows
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal_study.config.policy import TrlSettings
from cocal_study.policy.launch import train_command
from micro_trainer import train_words

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]

STEPS, ROWS = 4, 32
SETTINGS = {
    "algorithms": [],
    "dataset": "micro-train",
    "steps": STEPS,
    "stages": [2, STEPS],
    "questions_per_step": 4,
    "responses_per_question": 8,
    "max_response_length": {"grpo": 20},
    "learning_rate": 1e-3,
    "micro_batch": 16,
    "checkpoint_every": 1,
}
VLLM = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not in this environment")

ENGINES = {"own engine": {}, "vllm": {"vllm": True}, "vllm and FSDP2": {"vllm": True, "shard": True}}


@pytest.fixture(params=[pytest.param(name, marks=VLLM if "vllm" in name else ()) for name in ENGINES])
def command(request, tmp_path, micro_checkpoint, micro_questions) -> list[str]:
    trl = ENGINES[request.param] | {"vllm_max_length": 256}
    store = {"features": '{"layers": "all", "dtype": "bfloat16"}', "output_features": tmp_path / "rollouts.zarr"}
    questions = micro_questions / "micro-train.parquet"
    flags = train_words(tmp_path, SETTINGS | {"trl": trl}, micro_checkpoint, questions, **store)
    start = [sys.executable, "-m", *train_command(TrlSettings(), per_node="")]  # without an installation, too
    if "shard" in trl:  # one process does without a launcher, and so without shards
        start = train_command(TrlSettings(devices=2, shard=True, vllm=True), per_node="")
        start[start.index("--num_processes") + 1] = "1"
    return [*start, *flags]


def test_every_rollout_has_the_states_of_its_policy(command, tmp_path, micro_checkpoint):
    started.said(command)
    rollouts = read_frame(tmp_path / "rollouts", RESPONSES)
    assert rollouts["step"].value_counts().to_dict() == dict.fromkeys(range(1, STEPS + 1), ROWS)
    store = open_features(tmp_path / "rollouts.zarr")
    first = rollouts[rollouts["step"] == 1]
    policy = load_policy(micro_checkpoint)
    prompts, responses = (first[name].map(list).tolist() for name in ("prompt_ids", "response_ids"))
    lengths = [len(p) + len(r) for p, r in zip(prompts, responses, strict=True)]
    batches = batches_of_rows(lengths, 16)
    expected = score(policy.model, prompts, responses, batches, layers=(1,), pad=policy.pad).features
    expected = expected.reshape(len(first), -1)
    found = store.read(0, len(first))
    cosine = (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosine.min() > 0.99
    assert {path.name for path in (tmp_path / "stages").iterdir()} == {"step-2", f"step-{STEPS}"}


def test_a_killed_training_resumes(command, tmp_path):
    started.kill_when(tmp_path / "run/rollouts/step-00003.parquet", command)
    assert "resuming from" in started.said(command)
    assert len(read_frame(tmp_path / "rollouts", RESPONSES)) == STEPS * ROWS
    states = open_features(Path(tmp_path / "rollouts.zarr"))
    assert np.isfinite(states.read(0, len(states))).all()
