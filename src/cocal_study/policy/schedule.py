"""The schedule of the training questions."""

import numpy as np
import pandas as pd

from cocal.errors import ContractError


def question_schedule(questions: int, steps: int, per_step: int, seed: int) -> np.ndarray:
    """Indices of the questions of every step, int64 (steps, per_step).

    The set is permuted anew for each epoch. The schedule is computed in advance instead of by a data loader, so that
    every engine, every algorithm and PostCal's resampling see the same questions, and a resumed run continues where it
    stopped. Raises ValueError if the set is smaller than one step.
    """
    if questions < per_step:
        raise ValueError(f"{questions} training questions are fewer than the {per_step} of one step")
    draw = np.random.default_rng(seed)
    epochs = -(-steps * per_step // questions)
    order = np.concatenate([draw.permutation(questions) for _ in range(epochs)])
    return order[: steps * per_step].reshape(steps, per_step)


def asked_questions(rollouts: pd.DataFrame, questions: pd.DataFrame, steps: int, group_size: int) -> np.ndarray:
    """Indices of the questions that each step of a training asked, int64 (steps, questions per step), in their order.

    They come from the columns step, question_id and response_id of its rollouts, in which the responses of a group
    follow one another. Raises ContractError if steps or groups are incomplete, or if the training set lacks a question.
    """
    ordered = rollouts.sort_values("response_id")
    if len(ordered) % (steps * group_size) or ordered["step"].nunique() != steps:
        raise ContractError(
            f"the rollouts hold {len(ordered)} responses of {ordered['step'].nunique()} steps, which are no {steps} "
            f"steps with {group_size} responses per question; give the rollouts of this policy's training"
        )
    groups = ordered["question_id"].to_numpy().reshape(-1, group_size)
    if (groups != groups[:, :1]).any():
        raise ContractError("the responses to one question do not follow one another in the rollouts; import them anew")
    places = pd.Index(questions["question_id"]).get_indexer(groups[:, 0])
    if (places < 0).any():
        raise ContractError(
            f"the rollouts answer question {groups[places < 0][0, 0]!r}, which is not in the training set; give the "
            "set that the policy was trained on"
        )
    return places.reshape(steps, -1)
