"""The method in plain PyTorch; `fit.py` computes the same for all targets, seeds and prefixes together.

CoCal and PostCal differ in one line, the order of the responses: CoCal learns from the policy's rollouts in the order
in which they were sampled, PostCal from shuffled responses of the final policy.
"""

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
import torch
from torch import Tensor, nn


def mlp(inputs: int, widths: Sequence[int], dropout: Sequence[float]) -> nn.Sequential:
    """Build the companion of appendix A.1, from states float32 (n, inputs) to confidences (n,) in [0, 1].

    Args:
        inputs: Width of the states.
        widths: Widths of the hidden layers.
        dropout: Dropout rates after the first hidden layers.
    """
    layers: list[nn.Module] = []
    for width, rate in zip_longest(widths, dropout):
        layers += [nn.Linear(inputs, width), nn.LayerNorm(width), nn.GELU()]
        layers += [nn.Dropout(rate)] if rate else []
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, 1), nn.Sigmoid(), nn.Flatten(0))


def fit(
    model: nn.Module,
    states: Tensor,
    target: Tensor,
    correct: Tensor,
    held_out: Tensor,
    *,
    learning_rate: float,
    batch_size: int,
    passes: int,
    shuffling: np.random.Generator | None = None,
) -> tuple[list[float], list[float]]:
    """Fit one companion and leave it with the weights of its best pass (section 4.1).

    Args:
        model: The result of `mlp`, built after `torch.manual_seed(seed)`.
        states: float32 (n, inputs), the last token's hidden state and the mean over the response, of the responses that
            were not truncated, in chronological order.
        target: float32 (n,) in [0, 1], the values to be learnt (`cocal.companion.targets`).
        correct: float32 (n,), 1 for a correct response and 0 for another one, which chooses the best pass.
        held_out: bool (n,), the responses to validation questions.
        learning_rate: Learning rate of Adam.
        batch_size: Number of responses in a gradient step.
        passes: Number of passes through the training responses.
        shuffling: Generator of PostCal's orders; CoCal has none.

    Returns:
        The mean training loss and the validation error of each pass.
    """
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    training = torch.nonzero(~held_out).flatten()
    losses, errors = [], []
    for _ in range(passes):
        order = training if shuffling is None else training[shuffling.permutation(len(training))]
        total = 0.0
        for rows in order.split(batch_size):
            loss = nn.functional.mse_loss(model.train()(states[rows]), target[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item() * len(rows)
        losses.append(total / len(training))
        with torch.inference_mode():
            errors.append(nn.functional.mse_loss(model.eval()(states[held_out]), correct[held_out]).item())
        if errors[-1] == min(errors) and errors.count(errors[-1]) == 1:
            best = {name: weight.clone() for name, weight in model.state_dict().items()}
    model.load_state_dict(best)
    return losses, errors
