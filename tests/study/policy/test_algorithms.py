"""The first update of each algorithm, as the trainer does it, against the same update by hand from its rollouts."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

import plain_grpo as plain
from cocal.answers.equivalence import Verifier
from cocal.answers.extraction import parse_confidence
from cocal.answers.judge import Verdicts
from cocal.answers.settings import VerifierSettings
from cocal.models.loading import load_policy
from cocal.models.text import plain_texts
from cocal_study.config.policy import PolicySettings
from micro_trainer import train
from update_by_hand import advantages, gradients

GROUP, RATE, DECAY = 4, 1e-3, 0.1
OF_ALGORITHM = {
    "grpo": {"loss": "grpo", "max_gradient_norm": 0.02},
    "rlcr": {"loss": "dapo", "max_gradient_norm": 100.0, "invalid_confidence": 0.25, "mask_truncated": True},
    "dcpo": {"loss": "grpo", "max_gradient_norm": 100.0, "dcpo_group_weight": 0.75, "invalid_confidence": 0.4},
}


class Alternating(Verifier):
    """Accepts every third answer, so that some groups of four have one right answer and others two."""

    def correct(self, golds, answers, questions=()):
        place = np.arange(len(answers))
        return Verdicts(place % 3 == 0, np.ones(len(answers), dtype=bool))


@dataclass
class Update:
    """What the first of two updates has left behind, the policies around it, and the rollouts of both steps."""

    algorithm: str
    settings: PolicySettings
    before: object
    after: object
    recorded: pd.DataFrame
    gradient: dict[str, torch.Tensor]

    @property
    def rollouts(self) -> pd.DataFrame:
        return self.recorded[self.recorded["step"] == 1]

    def advantages(self) -> np.ndarray:
        missing, weight = self.settings.invalid_confidence, self.settings.dcpo_group_weight
        return advantages(self.algorithm, self.rollouts, self.decode, GROUP, missing, weight)

    def decode(self, ids) -> str:
        return plain_texts(self.before.tokenizer, [list(ids)])[0]


@pytest.fixture(scope="module", params=OF_ALGORITHM)
def update(request, tmp_path_factory, micro_checkpoint, micro_questions) -> Update:
    """The first update of a training of two steps."""
    algorithm, folder = request.param, tmp_path_factory.mktemp("update")
    settings = PolicySettings(
        dataset="micro-train",
        algorithms=(algorithm,),
        steps=2,
        stages=(1, 2),
        questions_per_step=4,
        responses_per_question=GROUP,
        micro_batch=8,
        max_response_length={"grpo": 16, "rlcr": 40, "dcpo": 30},
        temperature=0.8,
        learning_rate=RATE,
        weight_decay=DECAY,
        **OF_ALGORITHM[algorithm],
    )
    seen = []
    hook = register_optimizer_step_pre_hook(
        lambda optimizer, *_: seen.append([p.grad.clone() for group in optimizer.param_groups for p in group["params"]])
    )
    verifier = Alternating(VerifierSettings())
    try:
        recorded = train(folder, settings, micro_checkpoint, micro_questions, algorithm=algorithm, verifier=verifier)
    finally:
        hook.remove()
    taken, _ = seen
    before, after = load_policy(micro_checkpoint), load_policy(folder / "step-1")
    names = sorted((name for name, _ in before.model.named_parameters()), key=lambda name: not _decays(name))
    return Update(algorithm, settings, before, after, recorded, dict(zip(names, taken, strict=True)))


def _decays(name: str) -> bool:
    """True unless a parameter is that of a norm, for which there is no weight decay."""
    return "norm" not in name


def test_the_gradient_is_that_of_the_papers_advantages(update):
    if update.algorithm != "grpo":
        assert 0 < update.rollouts["confidence"].notna().mean() < 1, "both kinds of response are needed"
    settings, cut_teach = update.settings, not update.settings.mask_truncated
    if not cut_teach:
        assert 8 < update.rollouts["truncated"].sum() < 16, "one of two micro-batches has cut rollouts alone"
    of_tokens = update.advantages()
    expected = gradients(
        update.before.model, update.rollouts, of_tokens, settings.loss, settings.temperature, cut_teach
    )
    norm = torch.stack([one.norm() for one in expected.values()]).norm()
    scale = min(1.0, update.settings.max_gradient_norm / norm.item())
    assert (scale < 1) == (update.algorithm == "grpo"), "one of the algorithms is clipped"
    for name, found in update.gradient.items():
        torch.testing.assert_close(found, expected[name] * scale, atol=2e-5 * scale, rtol=2e-3)


def test_the_step_is_that_of_the_plain_code(update, micro_checkpoint):
    if update.algorithm != "grpo":
        pytest.skip("the plain code is that of GRPO")
    model, rows = load_policy(micro_checkpoint).model.train(), update.rollouts
    drawn, labels = [list(ids) for ids in rows["response_ids"]], rows["correct"].tolist()
    groups = iter([drawn[k : k + GROUP] for k in range(0, len(drawn), GROUP)])
    verdicts = iter(labels)
    named = [[one for name, one in model.named_parameters() if _decays(name) == decays] for decays in (True, False)]
    decays = [{"params": part, "weight_decay": rate} for part, rate in zip(named, (DECAY, 0.0), strict=True)]
    found, correct = plain.step(
        model,
        torch.optim.AdamW(decays, lr=RATE),
        [list(ids) for ids in rows["prompt_ids"][::GROUP]],
        lambda prompt: next(groups),
        lambda number, response: next(verdicts),
        update.settings,
    )
    assert [response for _, response in found] == drawn
    assert correct == labels
    after = dict(update.after.model.named_parameters())
    apart = [(weight - after[name]).abs().max().item() for name, weight in model.named_parameters()]
    assert max(apart) < 0.002 * RATE


def test_stated_confidences_and_their_rewards_are_recorded(update):
    recorded, settings = update.recorded, update.settings
    stated = np.array([parse_confidence(text) for text in recorded["text"]], dtype=float)
    if update.algorithm == "grpo":
        assert recorded["reward_calibration"].isna().all()
        return
    np.testing.assert_array_equal(recorded["confidence"], stated)
    correct = recorded["correct"].to_numpy(dtype=float)
    weight = settings.dcpo_group_weight if update.algorithm == "dcpo" else 0
    error = np.abs(stated - (1 - weight) * correct - weight * recorded["group_accuracy"])
    error = np.where(np.isnan(stated), settings.invalid_confidence, error)
    expected = -error if update.algorithm == "dcpo" else -(error**2)
    np.testing.assert_allclose(recorded["reward_calibration"], expected)
    asked = update.before.tokenizer.decode(recorded["prompt_ids"][0])
    assert "CONFIDENCE" in asked
    assert ("<reason>" in asked) == (update.algorithm == "rlcr")


def test_responses_end_or_are_as_long_as_those_of_their_algorithm(update):
    recorded, ends = update.recorded, update.before.ends
    longest = update.settings.max_response_length[update.algorithm]
    assert [ids[-1] not in ends for ids in recorded["response_ids"]] == recorded["truncated"].tolist()
    assert recorded["truncated"].any() or update.algorithm != "grpo"
    assert (recorded["length"][recorded["truncated"]] == longest).all()
    assert recorded["length"].max() <= longest
    assert set(recorded["group_accuracy"]) == {0.25, 0.5}
