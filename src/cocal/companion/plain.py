"""The method in plain PyTorch, to be read first; `fit.py` computes it for all targets, seeds and prefixes together.

CoCal and PostCal differ in one line, the order of the responses: CoCal learns from the policy's rollouts in the order
in which they were sampled, PostCal from shuffled responses of the final policy.
"""

import copy
import math
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss


def mlp(inputs: int, widths: Sequence[int], dropout: Sequence[float]) -> nn.Sequential:
    """Build the companion of appendix A.1, from states float32 (n, inputs) to confidences (n,) in [0, 1]."""
    layers = []
    for width, rate in zip_longest(widths, dropout, fillvalue=0):
        layers += [nn.Linear(inputs, width), nn.LayerNorm(width), nn.GELU()] + [nn.Dropout(rate)] * (rate > 0)
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
) -> list[float]:
    """Fit one companion, leave it with the weights of its best pass, and return each pass's validation error. Raises a
    FloatingPointError if no pass has a finite validation error, so that none is the best one.

    Args:
        model: The result of `mlp`, built after `torch.manual_seed(seed)`.
        states: float32 (n, inputs), last token's state beside the mean, of complete responses in chronological order.
        target: float32 (n,) in [0, 1], the values to be learnt (`cocal.companion.supervision`).
        correct: float32 (n,), 1 for a correct response and 0 for another one, which chooses the best pass.
        held_out: bool (n,), the responses to validation questions.
        learning_rate, batch_size, passes: Learning rate of Adam, responses in a gradient step, passes over them all.
        shuffling: NumPy generator of PostCal's orders; CoCal has none.
    """
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    training, errors = torch.nonzero(~held_out).flatten(), []
    for _ in range(passes):
        order = training if shuffling is None else training[shuffling.permutation(len(training))]
        for rows in order.split(batch_size):
            optimiser.zero_grad()
            mse_loss(model.train()(states[rows]), target[rows]).backward()
            optimiser.step()
        with torch.inference_mode():
            error = mse_loss(model.eval()(states[held_out]), correct[held_out]).item()
        if error < min(errors, default=math.inf):
            best = copy.deepcopy(model.state_dict())
        errors.append(error)
    if not any(map(math.isfinite, errors)):
        raise FloatingPointError(f"no pass has a finite validation error: {errors}")
    model.load_state_dict(best)
    return errors
