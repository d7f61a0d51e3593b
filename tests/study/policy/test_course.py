"""The course of the rate over the updates, as the rivals' authors have it."""

import numpy as np
import pytest
from torch.optim.optimizer import register_optimizer_step_pre_hook

from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings
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
def test_a_training_that_resumes_goes_on_with_the_course_of_its_rate(
    tmp_path, micro_checkpoint, micro_questions, rates
):
    settings = PolicySettings(**SETTINGS | {"warm_up": 0.2, "rate_decay": "linear"})
    given = settings, micro_checkpoint, micro_questions
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, *given, algorithm="rlcr", verifier=Stopping(VerifierSettings(), at=4))
    assert len(rates) == 6
    train(tmp_path, *given, algorithm="rlcr")
    shares = [0, 1 / 2, *[1 - k / 8 for k in range(8)]]  # RLCR's: a fifth of the ten updates
    np.testing.assert_allclose([rate for rate, _ in rates], RATE * np.array(shares), rtol=1e-12)
    assert {decay for _, decay in rates} == {0.07}
