"""slime: our hooks give the trainer's advantages, the command is the paper's, and what slime leaves is imported."""

import asyncio
import json
import shlex
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import dumps
from cocal.answers.settings import VerifierSettings
from cocal.cli import main
from cocal.errors import ConfigError
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal_study.config.policy import PolicySettings, SlimeSettings
from cocal_study.planning.costs import Cost, read_cost
from cocal_study.policy.objectives import step_advantages, step_rewards
from cocal_study.policy.schedule import question_schedule
from cocal_study.slime import hooks
from cocal_study.slime.run import exported, launch_command, model_arguments, slime_command
from cocal_study.store.contracts import QUESTIONS

QWEN3_8B = json.loads(Path(__file__).with_name("qwen3_8b.json").read_text(encoding="utf-8"))


@pytest.fixture
def hooked(tmp_path, monkeypatch):
    """The hooks with settings of their own."""

    def settle(algorithm, policy=dumps.SETTINGS):
        path = tmp_path / "hooks.json"
        settings = hooks.HookSettings(policy=policy, algorithm=algorithm, verifier=VerifierSettings())
        path.write_text(settings.model_dump_json())
        monkeypatch.setenv(hooks.ENVIRONMENT, str(path))
        for cached in (hooks._settings, hooks._tokenizer):
            cached.cache_clear()
        return settings.policy

    yield settle
    hooks._verifier().close()


@pytest.mark.parametrize("algorithm", ["grpo", "rlcr", "dcpo"])
def test_advantages_are_the_trainers(hooked, algorithm):
    """Of the same step, whatever the order in which slime holds its samples."""
    policy = hooked(algorithm)
    random = np.random.default_rng(5)
    count = 5 * dumps.GROUP
    correct = random.random(count) < 0.5
    confidence = np.where(random.random(count) < 0.2, np.nan, random.random(count))
    lengths, starts = random.integers(4, 9, count), random.integers(1, 9, count)
    rewards = step_rewards(policy, algorithm, correct, confidence)
    expected = step_advantages(policy, algorithm, rewards, starts, 9)
    samples = [
        SimpleNamespace(
            group_index=7 + place // dumps.GROUP,
            response_length=int(lengths[place]),
            reward={"acc": float(correct[place]), "conf": confidence[place], "conf_start": float(starts[place])},
        )
        for place in range(count)
    ]
    order = random.permutation(count)
    raw, found = hooks.normalised(SimpleNamespace(), [samples[place] for place in order])
    assert raw == [float(correct[place]) for place in order]
    if algorithm != "dcpo":
        np.testing.assert_allclose(found, expected[order])
        return
    vectors = [torch.tensor(sample.teacher_log_probs) for sample in samples]
    data = {"teacher_log_probs": vectors, "log_probs": [torch.zeros(len(row)) for row in vectors]}
    hooks.advantages(SimpleNamespace(), data)
    for place, (row, returns) in enumerate(zip(data["advantages"], data["returns"], strict=True)):
        assert row.dtype == torch.float32
        np.testing.assert_allclose(row, expected[place, : lengths[place]], rtol=1e-6)
        assert torch.equal(row, returns)
    with pytest.raises(ValueError, match="group 7 has 3 responses, not 4"):
        hooks.normalised(SimpleNamespace(), samples[1:])
    samples[0].group_index += 1
    with pytest.raises(ValueError, match="group 7 has 3 responses, not 4"):
        hooks.normalised(SimpleNamespace(), samples)


@pytest.mark.parametrize("masked", [True, False])
def test_cut_responses_are_removed_from_the_loss_where_the_settings_say_so(hooked, masked):
    """slime then makes their loss mask zero; it has dumped the samples before, so that they are imported."""
    hooked("rlcr", dumps.SETTINGS.model_copy(update={"mask_truncated": masked}))
    reward = {"acc": 1.0, "conf": 0.5, "conf_start": 0.0}
    cut = [place in (1, 6) for place in range(2 * dumps.GROUP)]
    samples = [
        SimpleNamespace(
            group_index=place // dumps.GROUP,
            response_length=3,
            reward=reward | {"acc": float(place % 2)},
            status=SimpleNamespace(value="truncated" if one else "completed"),
            remove_sample=False,
        )
        for place, one in enumerate(cut)
    ]
    _, found = hooks.normalised(SimpleNamespace(), samples)
    assert [sample.remove_sample for sample in samples] == [one and masked for one in cut]
    assert found[1] != 0, "their rewards still count in their group"


@pytest.mark.parametrize(
    ("text", "acc", "conf"),
    [(r"So \boxed{1/2}." + "\nCONFIDENCE: 0.8", 1.0, 0.8), (r"\boxed{3}", 0.0, None), ("no answer", 0.0, None)],
)
def test_rewards_are_the_verifiers_and_the_stated_confidence(hooked, micro_policy, micro_checkpoint, text, acc, conf):
    hooked("dcpo")
    tokenizer = micro_policy[1]
    prompt, ids = [5, 6, 7], [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    metadata = {"golds": ["7", "0.5"]}
    sample = SimpleNamespace(tokens=[*prompt, *ids], response_length=len(ids), label="7", metadata=metadata)
    found = asyncio.run(hooks.reward(SimpleNamespace(hf_checkpoint=str(micro_checkpoint)), sample, evaluation=False))
    assert found["acc"] == acc
    start = int(found["conf_start"])
    if conf is None:
        assert np.isnan(found["conf"])
        assert start == len(ids)
    else:
        assert found["conf"] == conf
        assert "CONFIDENCE" in tokenizer.decode(ids[start:])
        assert "CONFIDENCE" not in tokenizer.decode(ids[start + 1 :])


def test_the_command_is_the_papers():
    """Appendix A: 120 steps of 256 x 8 responses of at most 3,000 tokens, clip 0.20 / 0.28, saves at 40, 80 and 120."""
    settings = PolicySettings(dataset="deepscaler", algorithms=("grpo", "rlcr", "dcpo"))
    places = {"base": Path("/p/base"), "converted": Path("/p/td"), "run": Path("/p/run")}
    expected = Path(__file__).with_name("command.txt").read_text(encoding="utf-8")
    arguments = list(SlimeSettings().arguments)
    assert slime_command(settings, "grpo", QWEN3_8B, **places) == [*shlex.split(expected), *arguments]
    found = slime_command(settings, "dcpo", QWEN3_8B, **places)
    assert found[found.index("--custom-advantage-function-path") + 1] == "cocal_study.slime.hooks.advantages"
    found = slime_command(settings, "rlcr", QWEN3_8B, **places)
    assert found[found.index("--rollout-max-response-len") + 1] == "4096"
    course = settings.model_copy(update={"warm_up": 0.2, "rate_decay": "linear"})
    found = slime_command(course, "rlcr", QWEN3_8B, **places)
    assert [found[found.index(f"--lr-{key}") + 1] for key in ("warmup-fraction", "decay-style")] == ["0.2", "linear"]
    assert [exported(places["run"], step).name for step in settings.stages] == ["39", "79", "119"]
    with pytest.raises(ConfigError, match="not for llama"):
        model_arguments(QWEN3_8B | {"model_type": "llama"})


def test_several_nodes_are_joined_by_ray():
    slime = {"nodes": 2, "home": "/slime", "start": ["apptainer", "exec", "slime.sif"]}
    settings = PolicySettings(dataset="deepscaler", slime=slime)
    inside = "apptainer exec slime.sif env -C /slime"
    found = shlex.join(launch_command(settings, ["python3", "train.py"], "/scripts/slime.sh"))
    assert found == f"bash /scripts/each_node.sh 2 {inside} bash /scripts/slime.sh 2 8 python3 train.py"


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["grpo", "dcpo"])
def test_what_slime_leaves_becomes_a_training(tmp_path, monkeypatch, micro_checkpoint, micro_questions, algorithm):
    """slime's place is taken by slime/train.py beside this file, which keeps to what slime documents; GRPO's run is
    killed once on the way."""
    policy = dumps.SETTINGS.model_copy(
        update={
            "algorithms": (algorithm,),
            "slime": SlimeSettings(
                home=str(Path(__file__).parent / "slime"), torch_dist={"micro": "/nowhere"}, arguments=()
            ),
            "engine": "slime",
            "stages": (1, 3),
        }
    )
    backbone = {"source": "checkpoint", "label": "Micro", "path": str(micro_checkpoint), "depth": 2, "width": 32}
    flags = {
        "settings": policy.model_dump_json(),
        "backbone-name": "micro",
        "backbone": json.dumps(backbone),
        "algorithm": algorithm,
        "prompts": "tiny",
        "base": micro_checkpoint,
        "questions": micro_questions / "micro-train.parquet",
        "run-folder": tmp_path / "run",
        "stages": tmp_path / "stages",
        "rollouts": tmp_path / "rollouts",
        "cost": tmp_path / "cost.json",
    }
    command = ["slime", *(str(word) for flag, value in flags.items() for word in (f"--{flag}", value))]
    if algorithm == "grpo":
        monkeypatch.setenv("STOP_AT", "2")
        assert main(command) == 2
        assert not (tmp_path / "rollouts").exists()
        assert (tmp_path / "run/checkpoints/latest.txt").read_text() == "1"
        monkeypatch.delenv("STOP_AT")
    assert main(command) == 0
    questions = read_frame(micro_questions / "micro-train.parquet", QUESTIONS)
    rollouts = read_frame(tmp_path / "rollouts", RESPONSES)
    schedule = question_schedule(len(questions), policy.steps, policy.questions_per_step, policy.seed)
    expected = questions["question_id"].iloc[schedule.ravel().repeat(dumps.GROUP)]
    assert rollouts["question_id"].tolist() == expected.tolist()
    assert {path.name for path in (tmp_path / "stages").iterdir()} == {"step-1", "step-3"}
    assert read_cost(tmp_path / "cost.json", Cost).items == policy.steps
    assert not (tmp_path / "run").exists()
