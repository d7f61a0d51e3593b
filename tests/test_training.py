"""Policy training: every rollout recorded, live features, stages, resumption after a kill."""

import json
import re
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

from cocal import cli
from cocal.answers.extraction import extract_answer
from cocal.checkpoints.loading import load_policy
from cocal.checkpoints.resumable import COMPLETE, last_resumable
from cocal.checkpoints.text import chat_ids
from cocal.config.policy import PolicySettings, TrlSettings
from cocal.errors import ConfigError
from cocal.features.forward import batches_of_rows, score
from cocal.features.store import open_features
from cocal.generation.engine import Sampling
from cocal.generation.responses import sampling_seeds
from cocal.generation.transformers_engine import TransformersEngine
from cocal.policy.launch import train_command
from cocal.policy.rewards import group_advantages
from cocal.policy.schedule import question_schedule
from cocal.policy.seconds import StepSeconds
from cocal.policy.train import trl_arguments
from cocal.prompts import Prompts
from cocal.store import read_frame, read_provenance, write_frame
from cocal.store.contracts import QUESTIONS, RESPONSES
from cocal.study.costs import Cost, device_name, read_cost

STEPS, GROUP, PER_STEP = 5, 4, 6
SETTINGS = {
    "algorithms": [],
    "dataset": "micro-train",
    "steps": STEPS,
    "stages": [2, 5],
    "questions_per_step": PER_STEP,
    "responses_per_question": GROUP,
    "max_response_length": {"grpo": 20},
    "learning_rate": 1e-3,
    "updates_per_step": 2,
    "micro_batch": 6,
    "checkpoint_every": 2,
}


def _command(folder: Path, checkpoint: Path, questions: Path, processes: int) -> list[str]:
    flags = {
        "settings": json.dumps(SETTINGS),
        "features": json.dumps({"layers": "all", "dtype": "float32"}),
        "algorithm": "grpo",
        "prompts": "tiny",
        "base": checkpoint,
        "questions": questions,
        "run-folder": folder / "run",
        "stages": folder / "stages",
        "rollouts": folder / "rollouts",
        "output-features": folder / "rollouts.zarr",
        "cost": folder / "cost.json",
    }
    return [
        *train_command(TrlSettings(devices=processes), per_node=""),
        *(str(w) for k, v in flags.items() for w in (f"--{k}", v)),
    ]


@pytest.fixture(scope="module")
def questions(tmp_path_factory, micro_policy, micro_questions) -> Path:
    """A training set whose golds are answers that the micro policy gives, so that there is reward to learn from."""
    tokenizer = micro_policy.tokenizer
    frame = read_frame(micro_questions / "micro-train.parquet", QUESTIONS)
    engine = TransformersEngine.of(micro_policy, 64)
    ids = chat_ids(tokenizer, [Prompts("tiny").message("answer", q) for q in frame["question"]])
    sampling = Sampling(1.0, 1000, 1.0, 0.0, max_tokens=20, samples=8)
    groups = engine.generate(ids, sampling, [8 * i for i in range(len(ids))])
    answers = [[extract_answer(tokenizer.decode(c.token_ids)) for c in group] for group in groups]
    frame["answer"] = [next((a for a in found if a), "1") for found in answers]
    path = tmp_path_factory.mktemp("rewarded") / "micro-train.parquet"
    write_frame(path, frame, QUESTIONS, {})
    return path


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two processes"])
def processes(request) -> int:
    """Processes that share the work of a run."""
    return request.param


@pytest.fixture(scope="module")
def trained(processes, tmp_path_factory, micro_checkpoint, questions) -> Path:
    """Results of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("trained")
    command = _command(folder, micro_checkpoint, questions, processes)
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"step {STEPS}/{STEPS}, reward" in done.stderr
    assert "train_runtime" not in done.stdout + done.stderr, "the trainer prints no dictionaries of its own"
    assert not (folder / "run").exists()
    return folder


@pytest.fixture(scope="module")
def rollouts(trained) -> pd.DataFrame:
    return read_frame(trained / "rollouts", RESPONSES)


def test_every_step_is_recorded_in_order(trained, rollouts, questions):
    assert rollouts["step"].tolist() == sorted(rollouts["step"])
    assert rollouts["step"].value_counts().to_dict() == dict.fromkeys(range(1, STEPS + 1), GROUP * PER_STEP)
    assert rollouts["response_id"].tolist() == list(range(len(rollouts)))
    ids = read_frame(questions, QUESTIONS)["question_id"]
    schedule = question_schedule(len(ids), STEPS, PER_STEP, 42)
    assert rollouts["question_id"].tolist() == ids.iloc[schedule.ravel().repeat(GROUP)].tolist()
    assert read_provenance(trained / "rollouts" / "step-00001.parquet")["stage"] == "train"


def test_rewards_are_the_verifiers(rollouts, questions):
    golds = read_frame(questions, QUESTIONS).set_index("question_id")["answer"]
    gold = rollouts["question_id"].map(golds)
    assert (rollouts["correct"] == (rollouts["answer"] == gold)).all()
    assert 0 < rollouts["correct"].mean() < 1
    assert (rollouts["reward_task"] == rollouts["correct"]).all()
    accuracy = rollouts["correct"].to_numpy().reshape(-1, GROUP).mean(axis=1).repeat(GROUP)
    np.testing.assert_array_equal(rollouts["group_accuracy"], accuracy)


def test_truncated_rollouts_are_kept_and_marked(rollouts, micro_policy):
    end = micro_policy[1].eos_token_id
    assert 0 < rollouts["truncated"].mean() < 1
    for ids, truncated in zip(rollouts["response_ids"], rollouts["truncated"], strict=True):
        assert (ids[-1] == end) != truncated
    assert (rollouts["length"][rollouts["truncated"]] == 20).all()


@pytest.mark.parametrize(("step", "policy"), [(1, "base"), (3, "step-2")])
def test_rollouts_depend_on_policy_and_seeds_alone(trained, rollouts, micro_checkpoint, step, policy):
    """One after another, the engine gives the same responses as all processes together."""
    loaded = load_policy(micro_checkpoint if policy == "base" else trained / "stages" / policy)
    engine = TransformersEngine.of(loaded, 1)
    rows = rollouts[rollouts["step"] == step]
    sampling = Sampling(1.0, top_k=0, top_p=1.0, presence_penalty=0.0, max_tokens=20)
    seeds = sampling_seeds(f"grpo/{step}", 42, len(rows), samples=1)
    found = engine.generate(rows["prompt_ids"].tolist(), sampling, seeds)
    assert [group[0].token_ids for group in found] == [ids.tolist() for ids in rows["response_ids"]]
    assert len(set(rows["text"])) > PER_STEP


@pytest.mark.parametrize(("step", "policy"), [(1, "base"), (3, "step-2")])
def test_states_are_those_of_the_policy_that_produced_the_rollout(trained, rollouts, micro_checkpoint, step, policy):
    """Live features and log-probabilities of step t equal a later pass of the policy after t - 1 steps."""
    model, tokenizer = load_policy(micro_checkpoint if policy == "base" else trained / "stages" / policy)
    rows = rollouts[rollouts["step"] == step]
    prompts, responses = rows["prompt_ids"].tolist(), rows["response_ids"].tolist()
    batches = batches_of_rows(rows["length"].to_numpy(), 8)
    reader = open_features(trained / "rollouts.zarr")
    first = rows.index[0]
    scored = score(model, prompts, responses, batches, layers=(0, 1), pad=tokenizer.pad_token_id, logprobs=True)
    for part in scored:
        for k, i in enumerate(part.rows):
            np.testing.assert_allclose(part.logprobs[k], rows["logprobs"].iloc[i], atol=1e-4)
            for layer in (0, 1):
                live = reader.read(first + i, first + i + 1, layer=layer)[0]
                np.testing.assert_allclose(part.features[k, layer].ravel(), live, atol=1e-4)
    assert reader.response_id.tolist() == rollouts["response_id"].tolist()
    assert reader.length.tolist() == rollouts["length"].tolist()


def test_cost_is_the_time_of_all_steps(trained):
    cost = read_cost(trained / "cost.json", Cost)
    assert cost.items == STEPS
    assert cost.device == device_name()


def test_a_repeated_step_counts_once(tmp_path):
    for step, seconds in ((1, 1.0), (2, 5.0)):
        StepSeconds(tmp_path / "seconds.json").record(step, seconds)
    resumed = StepSeconds(tmp_path / "seconds.json")
    resumed.record(2, 2.0)
    resumed.record(3, 4.0)
    assert resumed.cost(items=3) == Cost(seconds=7.0, items=3, device=device_name())


def test_stages_differ_and_load(trained):
    assert sorted(p.name for p in (trained / "stages").iterdir()) == ["step-2", "step-5"]
    weights = [load_policy(trained / "stages" / s)[0].lm_head.weight for s in ("step-2", "step-5")]
    assert not (weights[0] == weights[1]).all()
    assert json.loads((trained / "stages/step-5/provenance.json").read_text())["stage"] == "train"


def test_advantages_are_trls(rollouts):
    """Equation 1 as in TRL: the pure function that all engines share gives the trainer's numbers."""
    import torch
    from trl.trainer.utils import nanstd

    rewards = torch.tensor(rollouts["reward_task"].to_numpy(), dtype=torch.float64).view(-1, GROUP)
    expected = (rewards - rewards.mean(dim=1, keepdim=True)) / (nanstd(rewards, dim=1)[:, None] + 1e-4)
    found = group_advantages(rollouts["reward_task"].to_numpy(), GROUP)
    np.testing.assert_allclose(found, expected.ravel(), atol=1e-6)


@pytest.mark.slow
def test_a_killed_run_resumes_without_losing_or_repeating_a_step(
    tmp_path, processes, trained, rollouts, micro_checkpoint, questions
):
    """Killed in step 4, after the checkpoint of step 2: the same rollouts, features and policies in the end."""
    command = _command(tmp_path, micro_checkpoint, questions, processes)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        dump = tmp_path / "run" / "rollouts" / "step-00003.parquet"
        waited = time.monotonic()
        while not dump.exists():
            assert process.poll() is None
            assert time.monotonic() - waited < 300
            time.sleep(0.02)
        for each in [*psutil.Process(process.pid).children(recursive=True), process]:
            each.kill()
    assert not (tmp_path / "rollouts").exists()
    (tmp_path / "run" / "checkpoint-6").mkdir(exist_ok=True)  # cut off while it was written
    (tmp_path / "run" / "checkpoint-6" / COMPLETE).unlink(missing_ok=True)
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "resuming from" in done.stderr
    assert re.search(r"resuming from .*checkpoint-4$", done.stderr, re.MULTILINE)
    assert "step 2/5" not in done.stderr
    pd.testing.assert_frame_equal(read_frame(tmp_path / "rollouts", RESPONSES), rollouts)
    assert read_cost(tmp_path / "cost.json", Cost).items == STEPS
    again, once = (open_features(f / "rollouts.zarr") for f in (tmp_path, trained))
    np.testing.assert_array_equal(again.read(0, len(again)), once.read(0, len(once)))
    for stage in ("step-2", "step-5"):
        pair = [load_policy(f / "stages" / stage)[0].state_dict() for f in (tmp_path, trained)]
        assert all((pair[0][name] == pair[1][name]).all() for name in pair[0])


def test_the_protocol_in_trls_terms(tmp_path):
    """Design, section 3.1; one rollout step is `updates_per_step` of TRL's steps."""
    paper = PolicySettings(dataset="deepscaler", micro_batch=16, updates_per_step=4)
    arguments = trl_arguments(paper, "grpo", tmp_path)
    assert (arguments.epsilon, arguments.epsilon_high, arguments.beta) == (0.20, 0.28, 0.0)
    assert (arguments.adam_beta1, arguments.adam_beta2) == (0.9, 0.999)
    other = trl_arguments(paper.model_copy(update={"adam_betas": (0.8, 0.98)}), "grpo", tmp_path)
    assert (other.adam_beta1, other.adam_beta2) == (0.8, 0.98)
    assert (arguments.temperature, arguments.num_generations, arguments.scale_rewards) == (1.0, 8, "group")
    assert arguments.generation_batch_size == 256 * 8
    assert arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps == 256 * 8 / 4
    assert (arguments.max_steps, arguments.save_steps) == (120 * 4, 10 * 4)
    assert arguments.max_completion_length == 3000
    assert arguments.chat_template_kwargs == {"enable_thinking": False}


def test_vllm_samples_without_a_correction_of_its_own(tmp_path):
    """Slime has no such term."""
    trl = {"vllm": True, "vllm_memory_share": 0.4, "vllm_max_length": 99}
    arguments = trl_arguments(PolicySettings(dataset="deepscaler", trl=trl), "grpo", tmp_path)
    assert (arguments.use_vllm, arguments.vllm_mode) == (True, "colocate")
    assert arguments.vllm_gpu_memory_utilization == 0.4
    assert arguments.vllm_max_model_length == 99
    assert not arguments.vllm_importance_sampling_correction
    assert not trl_arguments(PolicySettings(dataset="deepscaler"), "grpo", tmp_path).use_vllm


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed beside this Python")
def test_vllm_that_is_not_here_stops_the_training_before_it_begins(tmp_path, micro_checkpoint, micro_questions, capsys):
    flags = ["--settings", json.dumps(SETTINGS | {"trl": {"vllm": True}}), "--algorithm", "grpo"]
    flags += [
        "--prompts",
        "tiny",
        "--base",
        str(micro_checkpoint),
        "--questions",
        str(micro_questions / "micro-train.parquet"),
    ]
    folders = {"run-folder": "run", "stages": "stages", "rollouts": "rollouts"}
    flags += [word for flag, name in folders.items() for word in (f"--{flag}", str(tmp_path / name))]
    assert cli.main(["train", *flags]) == 2
    assert "vLLM is not installed for this Python; run with --sdm conda" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_command_of_one_process_of_a_node_and_of_several():
    assert train_command(TrlSettings(), "per_node.sh") == ["cocal", "train"]
    common = "--mixed_precision no --dynamo_backend no"
    node = f"accelerate launch --main_process_port 0 --num_machines 1 --num_processes 8 {common} --multi_gpu"
    assert " ".join(train_command(TrlSettings(devices=8), "per_node.sh")) == f"{node} --module cocal train"
    nodes = " ".join(train_command(TrlSettings(nodes=2, devices=8, shard=True, vllm=True), "per_node.sh"))
    start = "srun --overlap --nodes 2 --ntasks-per-node 1 bash per_node.sh --num_machines 2 --num_processes 16"
    assert nodes.startswith(f"{start} {common} --use_fsdp --fsdp_version 2 ")
    assert "--fsdp_cpu_ram_efficient_loading false " in nodes
    assert nodes.endswith(" --fsdp_state_dict_type FULL_STATE_DICT --module cocal train")
    with pytest.raises(ValueError, match="shard needs vllm"):
        TrlSettings(devices=8, shard=True)


def test_a_step_must_divide_evenly(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ConfigError, match=r"policy\.micro_batch = 8.*3 process.*2048 rollouts"):
        trl_arguments(PolicySettings(dataset="deepscaler"), "grpo", tmp_path)


def test_only_complete_checkpoints_are_resumed(tmp_path):
    for step, complete in ((4, True), (10, True), (12, False)):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if complete:
            (tmp_path / f"checkpoint-{step}" / COMPLETE).touch()
    assert last_resumable(tmp_path) == tmp_path / "checkpoint-10"
    assert not (tmp_path / "checkpoint-12").exists()
    assert last_resumable(tmp_path / "none") is None


def test_schedule_permutes_every_epoch():
    schedule = question_schedule(10, steps=7, per_step=4, seed=1)
    assert schedule.shape == (7, 4)
    order = schedule.ravel()
    assert sorted(order[:10]) == sorted(order[10:20]) == list(range(10))
    assert order[:10].tolist() != order[10:20].tolist()
    np.testing.assert_array_equal(schedule[:3], question_schedule(10, 3, 4, 1)[:3])
    with pytest.raises(ValueError, match="fewer than the 4"):
        question_schedule(3, 1, 4, 1)
