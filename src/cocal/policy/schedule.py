"""The schedule of the training questions."""

import numpy as np


def question_schedule(questions: int, steps: int, per_step: int, seed: int) -> np.ndarray:
    """Indices of the questions of every step, int64 (steps, per_step).

    The set is permuted anew for each epoch. The schedule is computed in advance instead of by a data loader, so that
    every engine, every algorithm and PostCal's resampling see the same questions, and a resumed run continues where it
    stopped.

    Args:
        questions: Size of the training set.
        steps: Number of rollout steps.
        per_step: Questions per step; at most `questions`, so that a step holds no question twice unless an epoch ends
            inside it.
        seed: Seed of the permutations.

    Raises:
        ValueError: if the set is smaller than one step.
    """
    if questions < per_step:
        raise ValueError(f"{questions} training questions are fewer than the {per_step} of one step")
    draw = np.random.default_rng(seed)
    epochs = -(-steps * per_step // questions)
    order = np.concatenate([draw.permutation(questions) for _ in range(epochs)])
    return order[: steps * per_step].reshape(steps, per_step)
