"""Rewards and advantages against the equations of section 3 and appendix B.2."""

import numpy as np
import pytest

from cocal.rewards import confidence_start, group_accuracy, group_advantages
from cocal_study.config.policy import PolicySettings
from cocal_study.policy.objectives import step_advantages, step_rewards

POLICY = PolicySettings(dataset="train", responses_per_question=4)
CORRECT = np.array([True, False, True, True, False, False, False, False])
CONFIDENCE = np.array([0.9, 0.9, np.nan, 0.2, 0.0, 1.0, np.nan, 0.5])
ERROR = np.where(np.isnan(CONFIDENCE), 1.0, CONFIDENCE - CORRECT)
DCPO = np.array([-abs(0.9 - 0.875), -abs(0.9 - 0.375), -1.0, -abs(0.2 - 0.875), 0.0, -1.0, -1.0, -0.5])
"""Of each response, -|c - (0.5 y + 0.5 mean y)|, and -1 without a confidence."""


def test_group_accuracy_is_the_mean_of_each_consecutive_group():
    assert group_accuracy(CORRECT, 4).tolist() == [0.75] * 4 + [0.0] * 4
    assert group_accuracy(CORRECT, 2).tolist() == [0.5, 0.5, 1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("algorithm", "calibration"), [("grpo", None), ("rlcr", -(ERROR**2)), ("dcpo", DCPO)], ids=["grpo", "rlcr", "dcpo"]
)
def test_rewards_are_correctness_and_the_calibration_of_the_algorithm(algorithm, calibration):
    """GRPO has no second part; RLCR's is -(c - y)^2, DCPO's is -|c - y_DCPO|."""
    rewards = step_rewards(POLICY, algorithm, CORRECT, CONFIDENCE)
    assert rewards.task.tolist() == CORRECT.tolist()
    if calibration is None:
        assert rewards.calibration is None
    else:
        np.testing.assert_allclose(rewards.calibration, calibration, atol=1e-15)


def test_lambda_and_the_price_of_no_confidence_are_configuration():
    settings = POLICY.model_copy(update={"dcpo_group_weight": 0.0, "invalid_confidence": 0.25})
    dcpo, rlcr = (step_rewards(settings, name, CORRECT, CONFIDENCE).calibration for name in ("dcpo", "rlcr"))
    np.testing.assert_allclose(dcpo[[0, 1, 2]], [-0.1, -0.9, -0.25])
    np.testing.assert_allclose(rlcr[[0, 1, 2]], [-(0.1**2), -(0.9**2), -(0.25**2)])


@pytest.mark.parametrize("algorithm", ["rlcr", "dcpo"])
def test_leaving_the_confidence_out_never_pays(algorithm):
    grid, settings = np.linspace(0, 1, 11), PolicySettings(dataset="train", responses_per_question=11)
    for right in (False, True):
        none, some = (
            step_rewards(settings, algorithm, np.full(11, right), stated).calibration
            for stated in (np.full(11, np.nan), grid)
        )
        assert (none <= some).all()


def test_advantages_by_hand():
    advantages = group_advantages([1, 0, 0, 0, 1, 1, 1, 1], 4)
    np.testing.assert_allclose(advantages[:4], np.array([0.75, -0.25, -0.25, -0.25]) / (0.5 + 1e-4))
    assert advantages[4:].tolist() == [0.0] * 4


def test_advantages_may_stay_undivided():
    """As those of RLCR's authors, so that a group of almost equal rewards moves the policy little."""
    own = {"rlcr": {"advantage_scale": "none"}}
    policy = PolicySettings(dataset="train", responses_per_question=4, algorithms=("grpo", "rlcr", "dcpo"), own=own)
    rewards = step_rewards(policy, "rlcr", CORRECT, CONFIDENCE)
    sums = (CORRECT - ERROR**2).reshape(2, 4)
    expected = (sums - sums.mean(axis=1, keepdims=True)).ravel()
    found = step_advantages(policy.for_training("rlcr"), "rlcr", rewards, np.zeros(8), length=6)
    np.testing.assert_allclose(found, expected)
    divided = step_advantages(policy.for_training("grpo"), "grpo", rewards, np.zeros(8), length=6)
    np.testing.assert_allclose(divided, group_advantages(CORRECT, 4))
    assert not np.allclose(found, group_advantages(CORRECT - ERROR**2, 4))


def test_rlcr_normalises_the_sum_over_the_whole_sequence():
    """R = y - (c - y)^2, one advantage for each response (appendix B.2)."""
    rewards = step_rewards(POLICY, "rlcr", CORRECT, CONFIDENCE)
    found = step_advantages(POLICY, "rlcr", rewards, np.zeros(8), length=6)
    np.testing.assert_allclose(found, group_advantages(CORRECT - ERROR**2, 4))


def test_dcpo_gives_each_token_one_of_two_advantages():
    """Task advantage before the confidence, calibration advantage from there on, normalised apart."""
    rewards, starts = step_rewards(POLICY, "dcpo", CORRECT, CONFIDENCE), np.array([3, 0, 9, 5, 6, 1, 2, 4])
    found = step_advantages(POLICY, "dcpo", rewards, starts, length=6)
    task, calibration = group_advantages(CORRECT, 4), group_advantages(DCPO, 4)
    assert found.shape == (8, 6)
    for row, start in enumerate(starts):
        np.testing.assert_allclose(found[row, :start], task[row])
        np.testing.assert_allclose(found[row, start:], calibration[row])


SOLUTION = "2+3=5\n\\boxed{5}"


@pytest.mark.parametrize(
    ("before", "statement"),
    [
        (SOLUTION + "\n", "CONFIDENCE: 0.9"),
        (SOLUTION + "\nCONFIDENCE: 0.2\n", "CONFIDENCE: 0.7"),
        (SOLUTION + "\n", "CONFIDENCE\uff1a 0.9"),
        ("caf\u00e9 \U0001d4b3 " + SOLUTION + "\n", "CONFIDENCE: 0.5"),
        (SOLUTION + "\n<reason>I am fairly sure.</reason>\n", "CONFIDENCE: 0.8"),
        (SOLUTION, ""),
    ],
)
def test_the_boundary_is_found_on_token_ids(micro_policy, before, statement):
    """No token belongs to both parts or to neither, and the statement's first letter opens the confidence part."""
    tokenizer = micro_policy.tokenizer

    def decode(ids):
        return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    ids = [*tokenizer(before + statement)["input_ids"], tokenizer.eos_token_id]
    start = confidence_start(ids, decode)
    if not statement:
        assert start == len(ids), "the end of sequence belongs to the answer then"
        return
    assert decode(ids[:start]) + decode(ids[start:]) == before + statement
    assert decode(ids[start:]).endswith(statement)
    assert not decode(ids[start + 1 :]).endswith(statement)
