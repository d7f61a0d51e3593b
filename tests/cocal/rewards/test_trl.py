"""The objectives in anybody's training with TRL give the numbers of the study's own trainer, from the same rollouts."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from cocal.models.loading import load_policy
from cocal.rewards import dcpo_advantages, rlcr, stated_confidences
from cocal.store import read_frame
from cocal_study.config.policy import PolicySettings
from cocal_study.policy.train import scheduled, trl_arguments
from cocal_study.policy.trainer import RecordingGRPOTrainer
from cocal_study.questions.prompts import Prompts
from cocal_study.store.contracts import QUESTIONS

GROUP = 4
SETTINGS = {
    **{"dataset": "micro-train", "steps": 1, "stages": (1,), "questions_per_step": 6, "responses_per_question": GROUP},
    **{"micro_batch": 8, "learning_rate": 1e-3, "temperature": 0.8, "invalid_confidence": 0.7},
    **{"max_response_length": {"rlcr": 40, "dcpo": 30}, "dcpo_group_weight": 0.25},
}


def correctness(completions, **_) -> list[float | None]:
    """Every third answer is right, so that groups differ; the last one is without a verdict."""
    return [None if k == len(completions) - 1 else float(k % 3 == 0) for k in range(len(completions))]


def decided(completions, **_) -> list[float]:
    """The same with a verdict on all."""
    return [float(k % 3 == 0) for k in range(len(completions))]


class Trained:
    """What a training of one step has made of its rollouts."""

    def __init__(self, folder: Path, checkpoint: Path, questions: Path, algorithm: str, *, own: bool, reward, **more):
        settings = PolicySettings(algorithms=(algorithm,), **SETTINGS | more)
        policy = load_policy(checkpoint, training=True)
        frame = read_frame(questions / "micro-train.parquet", QUESTIONS)
        given = {
            "model": policy.model,
            "processing_class": policy.tokenizer,
            "reward_funcs": [reward],
            "args": trl_arguments(settings, algorithm, folder),
            "train_dataset": scheduled(frame, range(6), Prompts("tiny"), algorithm),
        }
        if own:
            of_study = {"recorder": None, "layers": (), "policy": settings, "algorithm": algorithm, "stages": {}}
            trainer = RecordingGRPOTrainer(**given, **of_study, dtype=torch.float32, attributes={})
        else:
            trainer = GRPOTrainer(**given)
            if algorithm == "dcpo":
                dcpo_advantages(trainer, group_weight=0.25, invalid=0.7)
        generate, calculate = trainer._generate_and_score_completions, trainer._calculate_rewards

        def generated(inputs):
            self.batch = generate(inputs)
            return self.batch

        def calculated(*given):
            self.rewards = calculate(*given)
            return self.rewards

        trainer._generate_and_score_completions, trainer._calculate_rewards = generated, calculated
        trainer.train()
        self.trainer, self.advantages = trainer, self.batch["advantages"]


@pytest.fixture
def trained(tmp_path, micro_checkpoint, micro_questions, monkeypatch):
    """Makes trainings in which TRL samples, also in the study's trainer."""
    monkeypatch.setattr(RecordingGRPOTrainer, "_own_engine", property(lambda self: False))
    return lambda *given, **options: Trained(tmp_path, micro_checkpoint, micro_questions, *given, **options)


def test_dcpo_is_the_studys_to_the_last_digit(trained):
    study = trained("dcpo", own=True, reward=decided)
    stock = trained("dcpo", own=False, reward=decided)
    assert torch.equal(stock.batch["completion_ids"], study.batch["completion_ids"])
    assert torch.equal(stock.advantages, study.advantages)
    assert stock.advantages.shape == stock.batch["completion_ids"].shape
    masks = stock.batch["completion_mask"].bool()
    several = [len(row[mask].unique()) for row, mask in zip(stock.advantages, masks, strict=True)]
    key = "rewards/calibration/mean"
    assert {1, 2} <= set(several), "some responses state a confidence, and some have none"
    (logged,) = [float(line[key]) for line in stock.trainer.state.log_history if key in line]
    confidence = stated_confidences(
        stock.trainer.processing_class.batch_decode(stock.batch["completion_ids"], skip_special_tokens=True)
    )
    right = np.arange(len(confidence)) % 3 == 0
    target = 0.75 * right + 0.25 * right.reshape(-1, GROUP).mean(axis=1).repeat(GROUP)
    error = np.where(np.isnan(confidence), 0.7, np.abs(confidence - target))
    assert logged == pytest.approx(-error.mean(), rel=1e-4)


def test_rlcr_is_the_studys_reward_which_trl_normalises(trained):
    study = trained("rlcr", own=True, reward=decided)
    stock = trained("rlcr", own=False, reward=rlcr(decided, invalid=0.7))
    assert torch.equal(stock.batch["completion_ids"], study.batch["completion_ids"])
    texts = study.trainer.processing_class.batch_decode(study.batch["completion_ids"], skip_special_tokens=True)
    assert 0 < sum("CONFIDENCE:" in text for text in texts) < len(texts)
    # TRL keeps rewards in float32; the study's advantages come from float64
    torch.testing.assert_close(stock.advantages, study.advantages, rtol=1e-4, atol=1e-5)
    undivided = trained("rlcr", own=True, reward=decided, advantage_scale="none")
    rewards = stock.rewards[:, 0].view(-1, GROUP)
    expected = (rewards - rewards.mean(dim=1, keepdim=True)).ravel()
    torch.testing.assert_close(expected, undivided.advantages, rtol=1e-5, atol=1e-6)


def test_a_reward_is_that_of_the_equation_and_none_without_a_verdict():
    texts = ["CONFIDENCE: 0.8", "CONFIDENCE: 0.25", "no confidence", "CONFIDENCE: 1.5", "CONFIDENCE: 0.5"]
    rights = [1, 0, 1, 0, None]
    for completions in (texts, [[{"role": "assistant", "content": text}] for text in texts]):
        seen = {}

        def given(completions, solution, seen=seen):
            seen["solution"] = solution
            return rights

        found = rlcr(given, invalid=0.5)(completions=completions, solution=["a"] * 5)
        assert seen == {"solution": ["a"] * 5}
        np.testing.assert_allclose(found[:4], [1 - 0.2**2, -(0.25**2), 1 - 0.5**2, -(0.5**2)], rtol=1e-15)
        assert found[4] is None
    assert rlcr(lambda **_: [1.0])(completions=["no confidence"]) == [0.0], "the worst error costs the whole reward"


def test_a_response_without_a_verdict_teaches_nothing(trained):
    with_all, without = (trained("dcpo", own=False, reward=reward) for reward in (decided, correctness))
    assert with_all.advantages[-1].any()
    assert not without.advantages[-1].any()
    assert torch.equal(with_all.advantages[:-1], without.advantages[:-1])


@pytest.mark.parametrize("place", [0, 1], ids=["rlcr", "dcpo"])
def test_the_examples_of_the_page_train(repository, tmp_path, micro_checkpoint, micro_questions, place):
    page = (repository / "docs/rewards.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[place].replace("Qwen/Qwen3-0.6B", str(micro_checkpoint))
    rows = read_frame(micro_questions / "micro-train.parquet", QUESTIONS).head(4)
    asked = [[{"role": "user", "content": Prompts("tiny").message("dcpo", q)}] for q in rows["question"]]
    questions = Dataset.from_dict({"prompt": asked, "solution": [rf"\boxed{{{answer}}}" for answer in rows["answer"]]})
    config = {"max_completion_length": 30, "num_generations": 4, "per_device_train_batch_size": 8}
    config |= {"learning_rate": 0.01, "max_steps": 2, "logging_steps": 1}
    args = GRPOConfig(str(tmp_path), **config, use_cpu=True, bf16=False, report_to="none")
    given = {"args": args, "questions": questions}
    exec(code, given)
    logged = given["trainer"].state.log_history
    assert len([line for line in logged if "reward" in line]) == 2
    assert any("rewards/calibration/mean" in line for line in logged) == bool(place)
