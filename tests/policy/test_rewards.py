"""Rewards and advantages against the equations of section 3 and appendix B.2, and against TRL."""

import numpy as np
import pytest

from cocal.policy.objectives import dcpo_rewards, group_accuracy, group_advantages, grpo_rewards, rlcr_rewards

CORRECT = np.array([1, 0, 1, 1, 0, 0, 0, 0])
CONFIDENCE = np.array([0.9, 0.9, np.nan, 0.2, 0.0, 1.0, np.nan, 0.5])


def test_group_accuracy_is_the_mean_of_each_consecutive_group():
    assert group_accuracy(CORRECT, 4).tolist() == [0.75] * 4 + [0.0] * 4
    assert group_accuracy(CORRECT.astype(bool), 2).tolist() == [0.5, 0.5, 1, 1, 0, 0, 0, 0]


def test_grpo_reward_is_correctness():
    rewards = grpo_rewards(CORRECT)
    assert rewards.task.tolist() == CORRECT.tolist()
    assert rewards.calibration is None


def test_rlcr_parts_sum_to_equation():
    rewards = rlcr_rewards(CORRECT, CONFIDENCE)
    stated = ~np.isnan(CONFIDENCE)
    expected = CORRECT - (CONFIDENCE - CORRECT) ** 2
    np.testing.assert_allclose((rewards.task + rewards.calibration)[stated], expected[stated], atol=1e-15)
    assert rewards.task.tolist() == CORRECT.tolist()
    assert rewards.calibration[0] == pytest.approx(-0.01)


def test_dcpo_target_mixes_correctness_and_group_accuracy():
    rewards = dcpo_rewards(CORRECT, CONFIDENCE, 4, group_weight=0.5)
    # y_DCPO of group one: 0.5 y + 0.5 * 0.75
    expected = [-abs(0.9 - 0.875), -abs(0.9 - 0.375), -1.0, -abs(0.2 - 0.875), 0.0, -1.0, -1.0, -0.5]
    np.testing.assert_allclose(rewards.calibration, expected, atol=1e-15)
    assert rewards.task.tolist() == CORRECT.tolist()
    own = dcpo_rewards(CORRECT, CONFIDENCE, 4, group_weight=0.0).calibration
    np.testing.assert_allclose(own[[0, 1]], [-0.1, -0.9], atol=1e-15)


@pytest.mark.parametrize("error", [1.0, 0.25])
def test_invalid_confidence_gets_the_stated_error(error):
    invalid = np.isnan(CONFIDENCE)
    assert (rlcr_rewards(CORRECT, CONFIDENCE, error).calibration[invalid] == -(error**2)).all()
    dcpo = dcpo_rewards(CORRECT, CONFIDENCE, 4, invalid_confidence=error)
    assert (dcpo.calibration[invalid] == -error).all()


def test_leaving_the_confidence_out_never_pays():
    grid = np.linspace(0, 1, 11)
    for y in (0, 1):
        none = np.full(11, np.nan)
        assert (rlcr_rewards([y] * 11, none).calibration <= rlcr_rewards([y] * 11, grid).calibration).all()
        assert (dcpo_rewards([y] * 11, none, 11).calibration <= dcpo_rewards([y] * 11, grid, 11).calibration).all()


@pytest.mark.slow
def test_advantages_are_those_of_trl():
    """The formula of GRPOTrainer for scale_rewards="group", with TRL's own standard deviation (its Bessel
    correction is float32)."""
    import torch
    from trl.trainer.utils import nanstd

    rewards = np.random.default_rng(0).normal(size=(16, 8))
    rewards[3] = 1.0
    tensor = torch.tensor(rewards)
    mean, std = torch.nanmean(tensor, dim=1, keepdim=True), nanstd(tensor, dim=1, keepdim=True)
    expected = ((tensor - mean) / (std + 1e-4)).numpy().ravel()
    np.testing.assert_allclose(group_advantages(rewards.ravel(), 8), expected, rtol=1e-6, atol=1e-12)


def test_advantages_by_hand():
    advantages = group_advantages([1, 0, 0, 0, 1, 1, 1, 1], 4)
    np.testing.assert_allclose(advantages[:4], np.array([0.75, -0.25, -0.25, -0.25]) / (0.5 + 1e-4))
    assert advantages[4:].tolist() == [0.0] * 4
    np.testing.assert_allclose(group_advantages([1, 0], 2, epsilon=0.0), [0.5**0.5, -(0.5**0.5)])


def test_parts_are_normalised_separately_where_asked():
    """DCPO: the calibration advantage does not depend on the task rewards of the group."""
    rewards = dcpo_rewards(CORRECT, CONFIDENCE, 4)
    calibration = group_advantages(rewards.calibration, 4)
    np.testing.assert_allclose(calibration.reshape(2, 4).sum(axis=1), 0.0, atol=1e-12)
    both = group_advantages(rewards.task + rewards.calibration, 4)
    assert not np.allclose(calibration, both)


@pytest.mark.parametrize("size", [3, 0, 16])
def test_rows_that_are_no_whole_groups_are_refused(size):
    for function in (group_accuracy, group_advantages):
        with pytest.raises(ValueError, match="consecutive groups"):
            function(CORRECT, size)
    with pytest.raises(ValueError, match="consecutive groups"):
        dcpo_rewards(CORRECT, CONFIDENCE, size)


def test_bad_values_are_refused():
    with pytest.raises(ValueError, match="0 and 1"):
        grpo_rewards([0.5])
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        rlcr_rewards([1, 0], [1.5, 0.5])
    with pytest.raises(ValueError, match="1 confidences for 2"):
        rlcr_rewards([1, 0], [0.5])
    with pytest.raises(ValueError, match="finite"):
        group_advantages([1.0, np.nan], 2)
    with pytest.raises(ValueError, match="at least two"):
        group_advantages([1.0, 0.0], 1)
