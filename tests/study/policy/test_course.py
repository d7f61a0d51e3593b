"""What the rivals' authors do beside the rate itself: its course over the updates, and cut rollouts without a loss."""

import numpy as np
import pandas as pd
import pytest
from torch.optim.optimizer import register_optimizer_step_pre_hook

from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings
from cocal.features.store import open_features
from cocal.models.loading import load_policy
from cocal_study.config.policy import PolicySettings
from micro_trainer import train

RATE = 3e-3
SETTINGS = {
    **{"dataset": "micro-train", "algorithms": ("rlcr",), "steps": 5, "stages": (1, 5), "checkpoint_every": 1},
    **{"questions_per_step": 3, "responses_per_question": 4, "micro_batch": 3, "updates_per_step": 2},
    **{"max_response_length": {"rlcr": 40}, "learning_rate": RATE, "weight_decay": 0.07},
}


class Stopping(Verifier):
    """Fails when the answers of a step are to be verified, as a process does that is killed."""

    def __init__(self, settings: VerifierSettings, at: int):
        super().__init__(settings)
        self._left = at

    def correct(self, golds, answers, questions=()):
        self._left -= 1
        if not self._left:
            raise KeyboardInterrupt
        return super().correct(golds, answers, questions)


@pytest.fixture
def rates():
    """The rate of every update of the weights, in order, and the decay of those that decay."""
    seen: list[tuple[float, float]] = []
    hook = register_optimizer_step_pre_hook(
        lambda optimizer, *_: seen.append(tuple(optimizer.param_groups[0][key] for key in ("lr", "weight_decay")))
    )
    yield seen
    hook.remove()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "shares"),
    [
        ({}, [1.0] * 10),
        # RLCR's: a fifth of the ten updates
        ({"warm_up": 0.2, "rate_decay": "linear"}, [0, 1 / 2, *[1 - k / 8 for k in range(8)]]),
    ],
)
def test_the_rate_of_every_update(tmp_path, micro_checkpoint, micro_questions, rates, changes, shares):
    train(tmp_path, PolicySettings(**SETTINGS | changes), micro_checkpoint, micro_questions, algorithm="rlcr")
    np.testing.assert_allclose([rate for rate, _ in rates], RATE * np.array(shares), rtol=1e-12)
    assert {decay for _, decay in rates} == {0.07}


@pytest.mark.slow
def test_a_training_that_resumes_goes_on_with_the_course_of_its_rate(
    tmp_path, micro_checkpoint, micro_questions, rates
):
    settings = PolicySettings(**SETTINGS | {"warm_up": 0.2, "rate_decay": "linear"})
    given = settings, micro_checkpoint, micro_questions
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, *given, algorithm="rlcr", verifier=Stopping(VerifierSettings(), at=4))
    before = len(rates)
    assert 0 < before < 10
    train(tmp_path, *given, algorithm="rlcr")
    np.testing.assert_allclose([rate for rate, _ in rates[before:]], RATE * np.array([1 - k / 8 for k in range(4, 8)]))


@pytest.mark.slow
def test_cut_rollouts_that_teach_nothing_are_recorded_like_all_others(tmp_path, micro_checkpoint, micro_questions):
    """The policy of step 1 is the same, so that its rollouts are, too, with their states; what it learns is not."""
    found, states, weights = [], [], []
    for masked in (False, True):
        settings = PolicySettings(**SETTINGS | {"mask_truncated": masked, "loss": "dapo"})
        folder = tmp_path / str(masked)
        given = settings, micro_checkpoint, micro_questions
        found.append(train(folder, *given, algorithm="rlcr", states=True))
        states.append(open_features(folder / "features.zarr").read(0, 12))
        weights.append(load_policy(folder / "step-1").model.lm_head.weight)
    first = [frame[frame["step"] == 1].reset_index(drop=True) for frame in found]
    assert 0 < first[0]["truncated"].sum() < len(first[0])
    pd.testing.assert_frame_equal(*first)
    np.testing.assert_array_equal(*states)
    assert not (weights[0] == weights[1]).all()
    recorded = found[1]
    assert len(recorded) == 5 * 12, "of every step"
    assert (recorded["length"][recorded["truncated"]] == 40).all()
    assert recorded["length"].tolist() == [len(ids) for ids in recorded["response_ids"]]
    assert recorded["length"].tolist() == [len(one) for one in recorded["logprobs"]]
