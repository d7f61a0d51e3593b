"""RLCR and DCPO: rewards, advantages, and the boundary between answer and confidence tokens."""

import json

import numpy as np
import pytest

from cocal.answers.confidence import parse_confidence
from cocal.cli import main
from cocal.config.policy import PolicySettings
from cocal.policy.objectives import (
    confidence_start,
    dcpo_rewards,
    group_advantages,
    rlcr_rewards,
    step_advantages,
    step_rewards,
)
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES

POLICY = PolicySettings(dataset="train", responses_per_question=4)
CORRECT = np.array([True, False, True, True, False, False, True, False])
CONFIDENCE = np.array([0.9, 0.8, np.nan, 0.1, 0.5, 0.0, 1.0, 0.3])


def test_rlcr_normalises_the_sum_over_the_whole_sequence():
    """R = y - (c - y)^2, one advantage a response (appendix B.2)."""
    rewards = step_rewards(POLICY, "rlcr", CORRECT, CONFIDENCE)
    error = np.where(np.isnan(CONFIDENCE), 1.0, CONFIDENCE - CORRECT)
    total = CORRECT - error**2
    np.testing.assert_allclose(rewards.task + rewards.calibration, total)
    found = step_advantages(POLICY, "rlcr", rewards, np.zeros(8), length=6)
    np.testing.assert_allclose(found, group_advantages(total, 4))


def test_dcpo_gives_each_token_one_of_two_advantages():
    """Task advantage before the confidence, calibration advantage from there on, normalised apart."""
    rewards = step_rewards(POLICY, "dcpo", CORRECT, CONFIDENCE)
    mean = np.repeat([0.75, 0.25], 4)
    target = 0.5 * CORRECT + 0.5 * mean
    expected = -np.where(np.isnan(CONFIDENCE), 1.0, np.abs(CONFIDENCE - target))
    np.testing.assert_allclose(rewards.calibration, expected)
    starts = np.array([3, 0, 9, 5, 6, 1, 2, 4])
    found = step_advantages(POLICY, "dcpo", rewards, starts, length=6)
    task, calibration = group_advantages(CORRECT, 4), group_advantages(expected, 4)
    assert found.shape == (8, 6)
    for row, start in enumerate(starts):
        np.testing.assert_allclose(found[row, :start], task[row])
        np.testing.assert_allclose(found[row, start:], calibration[row])


def test_lambda_and_the_price_of_no_confidence_are_configuration():
    settings = POLICY.model_copy(update={"dcpo_group_weight": 0.0, "invalid_confidence": 0.25})
    rewards = step_rewards(settings, "dcpo", CORRECT, CONFIDENCE)
    np.testing.assert_allclose(rewards.calibration[[0, 2]], [-0.1, -0.25])


SOLUTION = "2+3=5\n\\boxed{5}"


@pytest.mark.parametrize(
    ("before", "statement"),
    [
        (SOLUTION + "\n", "CONFIDENCE: 0.9"),
        (SOLUTION, "CONFIDENCE: 0.9"),
        (SOLUTION + "\nCONFIDENCE: 0.2\n", "CONFIDENCE: 0.7"),
        (SOLUTION + "\n", "CONFIDENCE\uff1a 0.9"),
        (SOLUTION + "\n", "CONFIDENCE: 1e-3"),
        (SOLUTION + "\n", "CONFIDENCE: 10.5"),
        ("caf\u00e9 \U0001d4b3 " + SOLUTION + "\n", "CONFIDENCE: 0.5"),
        (SOLUTION + "\n<reason>I am fairly sure.</reason>\n", "CONFIDENCE: 0.8"),
    ],
)
def test_the_boundary_is_found_on_token_ids(micro_policy, before, statement):
    """No token belongs to both parts or to neither, and the statement's first letter opens the confidence part."""
    tokenizer = micro_policy[1]

    def decode(ids):
        return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    ids = [*tokenizer(before + statement)["input_ids"], tokenizer.eos_token_id]
    start = confidence_start(ids, decode)
    assert decode(ids[:start]) + decode(ids[start:]) == before + statement
    assert decode(ids[start:]).endswith(statement)
    assert not decode(ids[start + 1 :]).endswith(statement)


def test_a_response_without_confidence_has_no_confidence_token(micro_policy):
    tokenizer = micro_policy[1]
    ids = [*tokenizer(SOLUTION)["input_ids"], tokenizer.eos_token_id]
    assert confidence_start(ids, lambda part: tokenizer.decode(part, skip_special_tokens=True)) == len(ids)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["rlcr", "dcpo"])
def test_training_records_the_confidences_it_rewards(
    tmp_path, algorithm, micro_checkpoint, micro_policy, micro_questions
):
    settings = {
        "dataset": "micro-train",
        "steps": 2,
        "stages": [2],
        "questions_per_step": 6,
        "responses_per_question": 4,
        "max_response_length": {algorithm: 40},
        "algorithms": [algorithm],
        "learning_rate": 1e-3,
        "micro_batch": 12,
    }
    flags = {
        "settings": json.dumps(settings),
        "algorithm": algorithm,
        "base": micro_checkpoint,
        "questions": micro_questions / "micro-train.parquet",
        "prompts": "tiny",
        "run-folder": tmp_path / "run",
        "stages": tmp_path / "stages",
        "rollouts": tmp_path / "rollouts",
    }
    words = [str(word) for flag, value in flags.items() for word in (f"--{flag}", value)]
    assert main(["train", *words]) == 0
    assert not list(tmp_path.glob("**/*.zarr")), "no companion learns from these rollouts"
    rollouts = read_frame(tmp_path / "rollouts", RESPONSES)
    stated = np.array([parse_confidence(text) for text in rollouts["text"]], dtype=np.float64)
    assert np.isfinite(stated).mean() > 0
    np.testing.assert_array_equal(rollouts["confidence"], stated)
    correct = rollouts["correct"].to_numpy()
    rewards = rlcr_rewards(correct, stated) if algorithm == "rlcr" else dcpo_rewards(correct, stated, 4)
    np.testing.assert_allclose(rollouts["reward_calibration"], rewards.calibration)
    asked = micro_policy[1].decode(rollouts["prompt_ids"][0])
    assert "CONFIDENCE" in asked
    assert ("<reason>" in asked) == (algorithm == "rlcr")
