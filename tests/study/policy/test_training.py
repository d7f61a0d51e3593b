"""Whole trainings by one process and by two: rollouts, live features, stages, companions inside, and a kill."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import started
from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings
from cocal.features.store import open_features
from cocal.models.loading import load_policy
from cocal.store import read_frame, read_provenance
from cocal.store.contracts import RESPONSES
from cocal.store.origin import PROVENANCE
from cocal_study.config.policy import TrlSettings
from cocal_study.generation.engines import Sampling
from cocal_study.generation.responses import sampling_seeds
from cocal_study.generation.transformers_engine import TransformersEngine
from cocal_study.planning.costs import Cost, device_name, read_cost
from cocal_study.policy.launch import train_command
from cocal_study.policy.schedule import question_schedule
from cocal_study.store.contracts import QUESTIONS
from micro_trainer import train_words
from passed import check_recorded
from rewarded_questions import write_rewarded
from update_by_hand import gradients, normalised

pytestmark = pytest.mark.slow

STEPS, GROUP, PER_STEP = 5, 4, 6
SETTINGS = {
    **{"algorithms": [], "seed": 7, "steps": STEPS, "stages": [1, 2, 5], "checkpoint_every": 2},
    **{"questions_per_step": PER_STEP, "responses_per_question": GROUP, "max_response_length": {"grpo": 20}},
    **{"learning_rate": 1e-3, "loss": "grpo", "updates_per_step": 2, "micro_batch": 6},
}


@pytest.fixture(scope="module")
def questions(tmp_path_factory, micro_policy, micro_questions) -> Path:
    """A training set with reward to learn from."""
    path = tmp_path_factory.mktemp("rewarded") / "micro-train.parquet"
    return write_rewarded(path, micro_policy, micro_questions / "micro-train.parquet")


@pytest.fixture(
    scope="module",
    params=[pytest.param(1, id="one process"), pytest.param(2, id="two processes", marks=pytest.mark.long)],
)
def processes(request) -> int:
    """Processes that share the work of a run."""
    return request.param


@pytest.fixture(scope="module")
def command(processes, micro_checkpoint, questions) -> Callable[..., list[str]]:
    """The words of a training with results in a folder, with or without states."""

    def words(folder: Path, states: bool = True) -> list[str]:
        more = {"states": states, "features": '{"layers": "all", "dtype": "float32"}'}
        flags = train_words(folder, SETTINGS, micro_checkpoint, questions, **more)
        return [*train_command(TrlSettings(devices=processes), per_node=""), *flags]

    return words


@pytest.fixture(scope="module")
def trained(command, tmp_path_factory) -> Path:
    """Results of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("trained")
    done = started.run(command(folder))
    assert done.returncode == 0, done.stderr[-5000:]
    assert f"step {STEPS}/{STEPS}, reward" in done.stderr
    assert "train_runtime" not in done.stdout + done.stderr, "the trainer prints no dictionaries of its own"
    assert not (folder / "run").exists()
    return folder


@pytest.fixture(scope="module")
def rollouts(trained) -> pd.DataFrame:
    return read_frame(trained / "rollouts", RESPONSES)


def same_policies(one: Path, other: Path) -> bool:
    """True if the weights of all stages are the same bytes."""
    files = sorted((one / "stages").rglob("*.safetensors"))
    assert len(files) == len(SETTINGS["stages"])
    return all(file.read_bytes() == (other / file.relative_to(one)).read_bytes() for file in files)


def test_every_step_is_recorded_in_order_with_the_verifiers_rewards(trained, rollouts, questions):
    asked = read_frame(questions, QUESTIONS)
    schedule = question_schedule(len(asked), STEPS, PER_STEP, SETTINGS["seed"])
    assert rollouts["question_id"].tolist() == asked["question_id"].iloc[schedule.ravel().repeat(GROUP)].tolist()
    assert rollouts["step"].tolist() == np.repeat(range(1, STEPS + 1), GROUP * PER_STEP).tolist()
    assert rollouts["response_id"].tolist() == list(range(len(rollouts)))
    assert read_provenance(trained / "rollouts" / "step-00001.parquet")["stage"] == "train"
    golds = {row.question_id: [row.answer, *row.aliases] for row in asked.itertuples()}
    answers = [answer if isinstance(answer, str) else None for answer in rollouts["answer"]]
    with Verifier(VerifierSettings()) as verifier:
        verdicts = verifier.correct([golds[name] for name in rollouts["question_id"]], answers)
    assert rollouts["correct"].tolist() == verdicts.values.tolist()
    assert 0 < rollouts["correct"].mean() < 1
    assert (rollouts["reward_task"] == rollouts["correct"]).all()
    accuracy = rollouts["correct"].to_numpy().reshape(-1, GROUP).mean(axis=1).repeat(GROUP)
    np.testing.assert_array_equal(rollouts["group_accuracy"], accuracy)


def test_rollouts_depend_on_policy_and_seeds_alone(trained, rollouts):
    """One after another, the engine gives the same responses as all processes together."""
    engine, rows = TransformersEngine.of(load_policy(trained / "stages/step-2"), 1), rollouts[rollouts["step"] == 3]
    sampling = Sampling(1.0, top_k=0, top_p=1.0, presence_penalty=0.0, max_tokens=20)
    seeds = sampling_seeds("grpo/3", SETTINGS["seed"], len(rows), samples=1)
    found = engine.generate(rows["prompt_ids"].tolist(), sampling, seeds)
    assert [group[0].token_ids for group in found] == [ids.tolist() for ids in rows["response_ids"]]
    assert len(set(rows["text"])) > PER_STEP


@pytest.mark.parametrize(("step", "policy"), [(1, "base"), (3, "step-2")])
def test_states_are_those_of_the_policy_that_produced_the_rollout(trained, rollouts, micro_checkpoint, step, policy):
    """Live features and log-probabilities of step t equal a later pass of the policy after t - 1 steps."""
    reader = open_features(trained / "rollouts.zarr")
    folder = micro_checkpoint if policy == "base" else trained / "stages" / policy
    check_recorded(load_policy(folder), rollouts[rollouts["step"] == step], reader, layers=(0, 1))
    assert reader.response_id.tolist() == rollouts["response_id"].tolist()
    assert reader.length.tolist() == rollouts["length"].tolist()


def test_every_process_learns_from_its_own_rollouts(trained, rollouts, processes, micro_checkpoint):
    """The weights move against the gradient of all rollouts, which that of the first process's alone explains less."""
    before, after = load_policy(micro_checkpoint).model, load_policy(trained / "stages/step-1").model
    first = rollouts[rollouts["step"] == 1]
    advantages = normalised(first["correct"].to_numpy(dtype=float), GROUP)
    of_first = np.arange(len(first))[:, None] < len(first) / 2
    assert advantages[~of_first].any(), "the groups of the second process teach nothing"
    olds = dict(before.named_parameters())

    def downhill(chosen) -> float:
        """Share of the weights that moved against the gradient of the chosen rollouts."""
        of_tokens = (advantages * chosen).repeat(first["length"].max(), axis=1)
        gradient = gradients(before, first, of_tokens, SETTINGS["loss"], temperature=1.0)
        agreeing = counted = 0
        for name, weight in after.named_parameters():
            taught = gradient[name] != 0
            agreeing += ((weight - olds[name]).sign() == -gradient[name].sign())[taught].sum().item()
            counted += taught.sum().item()
        return agreeing / counted

    assert downhill(True) > 0.7
    if processes == 2:
        assert downhill(of_first) < downhill(True) - 0.03


def test_stages_differ_and_the_time_of_all_steps_is_the_cost(trained):
    assert sorted(p.name for p in (trained / "stages").iterdir()) == ["step-1", "step-2", "step-5"]
    weights = [load_policy(trained / "stages" / s)[0].lm_head.weight for s in ("step-2", "step-5")]
    assert not (weights[0] == weights[1]).all()
    assert read_provenance(trained / "stages/step-5/provenance.json")["stage"] == "train"
    cost = read_cost(trained / "cost.json", Cost)
    assert (cost.items, cost.device) == (STEPS, device_name())
    assert cost.states_seconds > 0


@pytest.mark.long
def test_training_without_captured_states_gives_the_same_weights(command, trained, rollouts, tmp_path):
    """Abstract: the companion's supervision is collected "while leaving task optimization unchanged"."""
    started.said(command(tmp_path, states=False))
    assert not (tmp_path / "rollouts.zarr").exists()
    assert same_policies(trained, tmp_path)
    pd.testing.assert_frame_equal(read_frame(tmp_path / "rollouts", RESPONSES), rollouts)


@pytest.mark.long
def test_a_killed_run_resumes_without_losing_or_repeating_a_step(command, tmp_path, trained, rollouts):
    """Killed in step 4, after the checkpoint of step 2: the same rollouts, features and policies in the end."""
    words = command(tmp_path)
    started.kill_when(tmp_path / "run/rollouts/step-00003.parquet", words)
    assert not (tmp_path / "rollouts").exists()
    (tmp_path / "run" / "checkpoint-6").mkdir(exist_ok=True)  # cut off while it was written
    (tmp_path / "run" / "checkpoint-6" / PROVENANCE).unlink(missing_ok=True)
    said = started.said(words)
    assert re.search(r"resuming from .*checkpoint-4$", said, re.MULTILINE)
    assert "step 2/5" not in said
    pd.testing.assert_frame_equal(read_frame(tmp_path / "rollouts", RESPONSES), rollouts)
    assert read_cost(tmp_path / "cost.json", Cost).items == STEPS
    again, once = (open_features(f / "rollouts.zarr") for f in (tmp_path, trained))
    np.testing.assert_array_equal(again.read(0, len(again)), once.read(0, len(once)))
    assert same_policies(trained, tmp_path)
