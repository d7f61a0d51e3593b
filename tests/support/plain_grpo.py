"""One step of GRPO in plain PyTorch, to be read first; `cocal_study.policy.trainer` has TRL take it at full size.

RLCR and DCPO differ in rewards and advantages alone (`cocal.rewards`).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from cocal_study.config.policy import PolicySettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def advantages(correct: Tensor, group: int) -> Tensor:
    """By how much each response is better than the group of responses to its question (equation 1), float32 (n,), from
    `correct`, float32 (n,), which is 1 for a correct response; the responses to one question are consecutive."""
    rewards = correct.view(-1, group)
    better = rewards - rewards.mean(dim=1, keepdim=True)
    return (better / (rewards.std(dim=1, keepdim=True) + 1e-4)).flatten()


def log_probabilities(model: "PreTrainedModel", prompt: list[int], response: list[int], temperature: float) -> Tensor:
    """Those that the model gives to the tokens of a response after a prompt, both lists of ids: float32 (length,)."""
    logits = model(torch.tensor([[*prompt, *response]])).logits[0, len(prompt) - 1 : -1] / temperature
    return logits.log_softmax(dim=1)[range(len(response)), response]


def loss(new: Tensor, old: Tensor, advantage: Tensor, clip_low: float, clip_high: float) -> Tensor:
    """The clipped objective of one response, to be minimised: the mean over its tokens (section 3).

    Args:
        new, old: Log-probabilities of its tokens (length,) by the policy that learns and by the one that sampled it.
        advantage: Its advantage, or one for each token.
        clip_low, clip_high: How far the ratio of both probabilities may lie from 1 and still be worth something.
    """
    ratio = (new - old).exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(1 - clip_low, 1 + clip_high) * advantage).mean()


def step(
    model: "PreTrainedModel",
    optimiser: torch.optim.Optimizer,
    prompts: Sequence[list[int]],
    sample: Callable[[list[int]], Sequence[list[int]]],
    verify: Callable[[int, list[int]], bool],
    settings: PolicySettings,
) -> tuple[list[tuple[list[int], list[int]]], list[float]]:
    """Sample responses, verify them, and update the policy on them; returns the rollouts and their correctness.

    Args:
        prompts: The step's questions as lists of token ids.
        sample: Function of a prompt that returns `settings.responses_per_question` responses of the policy, lists of
            token ids.
        verify: Function of the number of a question and a response that returns whether the response is correct.
        settings: Settings of the training, with the loss "grpo", the mean over the responses.
    """
    rollouts: list[tuple[list[int], list[int]]] = []
    correct = []
    for number, prompt in enumerate(prompts):
        for response in sample(prompt):
            rollouts.append((prompt, response))
            correct.append(float(verify(number, response)))
    gains = advantages(torch.tensor(correct), settings.responses_per_question)
    with torch.no_grad():
        old = [log_probabilities(model, *rollout, settings.temperature) for rollout in rollouts]
    for rows in torch.arange(len(rollouts)).chunk(settings.updates_per_step):
        optimiser.zero_grad()
        for row in rows.tolist():
            new = log_probabilities(model, *rollouts[int(row)], settings.temperature)
            part = loss(new, old[row], gains[row], settings.clip_low, settings.clip_high)
            (part / len(rows)).backward()
        clip_grad_norm_(model.parameters(), settings.max_gradient_norm)
        optimiser.step()
    return rollouts, correct
