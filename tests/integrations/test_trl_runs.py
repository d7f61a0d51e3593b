"""TRL's own trainer, really run: what its options leave in a recording and in the files of its completions."""

import pandas as pd
import pytest
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from cocal.features.store import open_features
from cocal.integrations.trl import dumps as trl
from cocal.integrations.trl.recording import Recording, RolloutRecording
from cocal.models.loading import load_policy
from cocal.models.text import chat_ids
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES

pytestmark = pytest.mark.slow

GROUP, QUESTIONS, LONGEST = 4, 3, 14


class Recorded(RolloutRecording, GRPOTrainer):
    """Anybody's trainer."""


@pytest.fixture
def make(micro_checkpoint, tmp_path):
    """Makes TRL's trainer with these options, beside the usual ones."""

    def trainer(kind=GRPOTrainer, *, questions: int = 24, recording: dict | None = None, **options):
        policy = load_policy(micro_checkpoint, training=True)
        others = {name: options.pop(name) for name in ("rollout_func", "eval_dataset") if name in options}
        given = {
            "max_steps": 4,
            "num_generations": GROUP,
            "per_device_train_batch_size": GROUP * QUESTIONS,
            "max_completion_length": LONGEST,
            "learning_rate": 1e-3,
            "chat_template_kwargs": {"enable_thinking": False},
            "save_strategy": "no",
            "report_to": "none",
            "use_cpu": True,
            "bf16": False,
            "disable_tqdm": True,
            "seed": 3,
        }
        if recording is not None:
            others["recording"] = Recording(folder=tmp_path / "recording", number_format="float32", **recording)
        return kind(
            model=policy.model,
            processing_class=policy.tokenizer,
            reward_funcs=others.pop("reward_funcs", [right]),
            args=GRPOConfig(output_dir=str(tmp_path / "output"), **given | options),
            train_dataset=asked(range(questions)),
            **others,
        )

    return trainer


def asked(numbers) -> Dataset:
    """Questions of one message each."""
    return Dataset.from_dict({"prompt": [[{"role": "user", "content": f"What is {k} + 8?"}] for k in numbers]})


def right(completions, **_) -> list[float]:
    """A reward of 1 for some of the completions."""
    return [float(len(one[0]["content"]) % 2) for one in completions]


@pytest.mark.parametrize("masked", [False, True])
def test_truncated_completions_that_are_masked_are_recorded_whole(make, tmp_path, masked):
    """With `mask_truncated_completions` TRL's batch has no token of a truncated completion."""
    trainer = make(Recorded, recording={}, mask_truncated_completions=masked)
    trainer.train()
    rollouts = read_frame(tmp_path / "recording/rollouts", RESPONSES)
    cut = rollouts["truncated"]
    assert len(rollouts) == 4 * GROUP * QUESTIONS
    assert 0 < cut.mean() < 1
    assert (rollouts["length"][cut] == LONGEST).all()
    ends = [ids[-1] in trainer.eos_token_ids for ids in rollouts["response_ids"]]
    assert ends == (~cut).tolist()
    assert len(open_features(tmp_path / "recording/features.zarr")) == len(rollouts)


def test_the_recording_of_masked_completions_is_that_of_the_others(make, tmp_path):
    """In the first step, before the policies differ."""
    tables = []
    for masked in (False, True):
        folder = tmp_path / str(masked)
        trainer = make(Recorded, recording={}, mask_truncated_completions=masked, max_steps=1)
        trainer._folder = folder
        trainer.train()
        tables.append(read_frame(folder / "rollouts", RESPONSES))
    pd.testing.assert_frame_equal(*tables)


@pytest.mark.parametrize("masked", [False, True])
def test_words_of_tools_are_no_response(make, tmp_path, micro_policy, masked):
    """TRL's mask of them, which the batch has for whole completions alone where truncated ones are masked."""
    own, tool = [40, 41, 42, 43], [60, 61]

    def roll(prompts, trainer):
        end = trainer.eos_token_ids[0]
        given = [own, [*own, end], [*own, *tool, *own], [*own, *tool, *own, end]] * (len(prompts) // GROUP)
        masks = [[int(one not in tool) for one in ids] for ids in given]
        prompt_ids = chat_ids(micro_policy.tokenizer, [prompt[0]["content"] for prompt in prompts])
        return {"prompt_ids": prompt_ids, "completion_ids": given, "logprobs": None, "env_mask": masks}

    make(Recorded, recording={}, rollout_func=roll, mask_truncated_completions=masked).train()
    rollouts = read_frame(tmp_path / "recording/rollouts", RESPONSES)
    assert rollouts["finish_reason"].tolist() == ["length", "stop", "tool_calls", "tool_calls"] * (4 * QUESTIONS)
    found = trl.read(tmp_path / "recording/rollouts/step-00002.parquet", "reward")
    assert [sample.left_out for sample in found[:4]] == [None, None, *["it ended by 'tool_calls'"] * 2]
