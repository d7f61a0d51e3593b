"""Rewards and advantages against the equations of section 3 and appendix B.2."""

import numpy as np
import pytest

from cocal.rewards import confidence_start, group_advantages
from cocal_study.config.policy import PolicySettings
from cocal_study.policy.objectives import step_advantages, step_rewards

CORRECT = np.array([True, False, True, True, False, False, False, False])
CONFIDENCE = np.array([0.9, 0.9, np.nan, 0.2, 0.0, 1.0, np.nan, 0.5])
ERROR = np.where(np.isnan(CONFIDENCE), 1.0, CONFIDENCE - CORRECT)


@pytest.mark.parametrize("algorithm", ["rlcr", "dcpo"])
def test_leaving_the_confidence_out_never_pays(algorithm):
    grid, settings = np.linspace(0, 1, 11), PolicySettings(dataset="train", responses_per_question=11)
    for right in (False, True):
        none, some = (
            step_rewards(settings, algorithm, np.full(11, right), stated).calibration
            for stated in (np.full(11, np.nan), grid)
        )
        assert (none <= some).all()


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
