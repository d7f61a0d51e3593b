"""Which questions each step samples."""

import numpy as np


def question_schedule(questions: int, steps: int, per_step: int, seed: int) -> np.ndarray:
    """Indices of the questions of every step, int64 (steps, per_step).

    The set is permuted anew for each epoch. The schedule is data, not a side effect of a data loader, so that
    every engine, every algorithm and PostCal's resampling see the same questions, and a resumed run goes on
    where it stopped.

    Args:
        questions: size of the training set.
        steps: rollout steps.
        per_step: questions a step; at most `questions`, so that a step holds no question twice unless an
            epoch ends inside it.
        seed: of the permutations.

    Raises:
        ValueError: if the set is smaller than one step.
    """
    if questions < per_step:
        raise ValueError(f"{questions} training questions are fewer than the {per_step} of one step")
    draw = np.random.default_rng(seed)
    epochs = -(-steps * per_step // questions)
    order = np.concatenate([draw.permutation(questions) for _ in range(epochs)])
    return order[: steps * per_step].reshape(steps, per_step)
