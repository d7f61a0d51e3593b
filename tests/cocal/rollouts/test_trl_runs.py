"""TRL's own trainer, really run: what its options leave in a recording and in the files of its completions."""

import pytest
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from cocal.features.store import open_features
from cocal.models.loading import load_policy
from cocal.models.text import chat_ids
from cocal.rollouts.formats import trl
from cocal.rollouts.trl.recording import Recording, RolloutRecording
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from hand_rows import noted

pytestmark = pytest.mark.slow

GROUP, QUESTIONS, LONGEST = 4, 3, 14


class Recorded(RolloutRecording, GRPOTrainer):
    """Anybody's trainer."""


@pytest.fixture
def make(micro_checkpoint, tmp_path):
    """Makes TRL's trainer with these options, beside the usual ones."""

    def trainer(kind=GRPOTrainer, *, reward=right, rollout_func=None, eval_dataset=None, **options):
        policy = load_policy(micro_checkpoint, training=True)
        given = {"max_steps": 4, "num_generations": GROUP, "per_device_train_batch_size": GROUP * QUESTIONS}
        given |= {"max_completion_length": LONGEST, "chat_template_kwargs": {"enable_thinking": False}, "seed": 3}
        given |= {"save_strategy": "no", "report_to": "none", "use_cpu": True, "bf16": False, "disable_tqdm": True}
        recording = Recording(folder=tmp_path / "recording", number_format="float32")
        return kind(
            model=policy.model,
            processing_class=policy.tokenizer,
            reward_funcs=[reward],
            args=GRPOConfig(output_dir=str(tmp_path / "output"), learning_rate=1e-3, **given | options),
            train_dataset=asked(range(24)),
            rollout_func=rollout_func,
            eval_dataset=eval_dataset,
            **({"recording": recording} if kind is Recorded else {}),
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
    trainer = make(Recorded, mask_truncated_completions=masked)
    trainer.train()
    rollouts = read_frame(tmp_path / "recording/rollouts", RESPONSES)
    cut = rollouts["truncated"]
    assert len(rollouts) == 4 * GROUP * QUESTIONS
    assert 0 < cut.mean() < 1
    assert (rollouts["length"][cut] == LONGEST).all()
    ends = [ids[-1] in trainer.eos_token_ids for ids in rollouts["response_ids"]]
    assert ends == (~cut).tolist()
    assert len(open_features(tmp_path / "recording/features.zarr")) == len(rollouts)


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

    make(Recorded, rollout_func=roll, mask_truncated_completions=masked).train()
    rollouts = read_frame(tmp_path / "recording/rollouts", RESPONSES)
    assert rollouts["finish_reason"].tolist() == ["length", "stop", "tool_calls", "tool_calls"] * (4 * QUESTIONS)
    found = trl.read(tmp_path / "recording/rollouts/step-00002.parquet")
    assert [sample.left_out for sample in found[:4]] == [None, None, *["it ended by 'tool_calls'"] * 2]


def _asks(found) -> dict[int, list[int]]:
    """Numbers of the questions by step."""
    steps = {sample.step for sample in found}
    return {k: sorted({int(one.asked.split()[2]) for one in found if one.step == k}) for k in sorted(steps)}


LOGGED = {"log_completions": True, "num_completions_to_print": 1, "per_device_eval_batch_size": GROUP}


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"logging_steps": 3, "logging_first_step": True, "max_steps": 7}, [1, 3, 6, 7]),
        ({"logging_steps": 2}, [1, 2]),
        ({"logging_steps": 3}, [3, 4]),
    ],
)
def test_completions_are_read_whatever_steps_were_logged(make, tmp_path, options, steps):
    make(**LOGGED, **options).train()
    found, (note,) = noted(tmp_path / "output/completions")
    updates = options.get("max_steps", 4)
    assert note.startswith(
        f"TRL wrote {len(steps)} tables in {updates} updates: responses that it sampled in between are"
    )
    assert len(found) == len(steps) * GROUP * QUESTIONS
    assert [(step, len(asks)) for step, asks in _asks(found).items()] == [(step, QUESTIONS) for step in steps]


def test_completions_that_are_logged_twice_are_learnt_once_and_those_without_a_verdict_never(make, tmp_path):
    """A reward that is None is no verdict."""

    def some(completions, **_):
        return [None if place % GROUP == 1 else 1.0 for place in range(len(completions))]

    make(**LOGGED, logging_steps=1, num_iterations=2, reward=some).train()
    found, notes = noted(tmp_path / "output/completions")
    assert len(found) == 2 * (GROUP - 1) * QUESTIONS
    assert sorted({sample.step for sample in found}) == [1, 3]
    twice, none = 2 * GROUP * QUESTIONS, 2 * QUESTIONS
    assert notes == [f"{none} rows left out: it has no label", f"{twice} rows left out: TRL logged them twice"]


@pytest.mark.parametrize("saved", ["steps", "no"])
def test_completions_of_evaluations_are_no_rollouts(make, tmp_path, saved):
    """A table of an evaluation is known by the checkpoint's log, or by the prompts of the evaluation at the start."""
    options = {"logging_steps": 2, "max_steps": 6, "eval_strategy": "steps", "eval_steps": 4, "save_strategy": saved}
    options |= {"eval_dataset": asked(range(100, 100 + QUESTIONS)), "eval_on_start": saved == "no"}
    make(**LOGGED, **options).train()
    found, (_, *notes) = noted(tmp_path / "output/completions")
    assert all(ask < 24 for asks in _asks(found).values() for ask in asks)
    assert [len(asks) for asks in _asks(found).values()] == [QUESTIONS]
    tables = 3 if saved == "no" else 2
    assert notes == [f"{tables * GROUP * QUESTIONS} rows left out: TRL wrote their table after an evaluation"]
