"""Checks of the responses that companions learn from: the rollouts (CoCal) and the resampled responses (PostCal)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.companion.supervision import check_chronological, with_question
from cocal.errors import ContractError
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES

_COLUMNS = (
    "dataset",
    "question_id",
    "response_id",
    "step",
    "sample",
    "finish_reason",
    "truncated",
    "answer",
    "correct",
    "decided",
    "group_accuracy",
)
_QUESTION = ["step", "dataset", "question_id"]


def read_table(folder: Path, questions: Path) -> pd.DataFrame:
    """Labels of all responses in `folder`, with the text of their questions; no token ids or response texts.

    Raises:
        ContractError: if a table breaks its contract or a question is not in `questions`.
    """
    return with_question(read_frame(folder, RESPONSES, _COLUMNS), folder, questions)


def check_steps(table: pd.DataFrame, source: str | Path) -> dict[str, int]:
    """Responses are in the chronological order of their steps, and no step is missing (section 4.1).

    Returns:
        Number of steps and responses.
    """
    check_chronological(table, source)
    steps = table["step"].unique()
    gaps = np.flatnonzero(steps != np.arange(1, len(steps) + 1))
    if len(gaps):
        raise ContractError(f"{source}: steps must count from 1; in place of step {gaps[0] + 1} is {steps[gaps[0]]}")
    return {"steps": len(steps), "responses": len(table)}


def check_group_accuracy(table: pd.DataFrame, source: str | Path) -> dict[str, int]:
    """The group accuracy is that of the original group, truncated responses included (appendix A.1).

    Returns:
        Number of groups, responses in each, and groups whose accuracy would be another one after filtering.
    """
    # A question that a step holds twice (an epoch ends inside it) has two groups.
    occurrence = table.groupby([*_QUESTION, "sample"], sort=False).cumcount()
    group = table.groupby([*_QUESTION, occurrence], sort=False).ngroup().to_numpy()
    size, sizes = int(table["sample"].max()) + 1, np.bincount(group)
    correct, kept = table["correct"].to_numpy(), ~table["truncated"].to_numpy()
    accuracy = np.bincount(group, weights=correct) / sizes
    for wrong, problem in (
        ((sizes != size)[group], f"is in a group of less than the {size} sampled responses"),
        (np.abs(accuracy[group] - table["group_accuracy"]) > 1e-6, "has not the accuracy of its original group"),
    ):
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise ContractError(
                f"{source}: response {table['response_id'].iloc[row]} (row {row}) {problem} ({wrong.sum()} such "
                "row(s)); group accuracies are taken over whole groups, before truncated responses are left out"
            )
    with np.errstate(invalid="ignore"):  # 0 / 0: nothing is left of the group
        filtered = np.bincount(group[kept], correct[kept], len(sizes)) / np.bincount(group[kept], None, len(sizes))
    return {
        "groups": len(sizes),
        "responses_per_group": size,
        "groups_changed_by_filtering": int((np.abs(filtered - accuracy) > 1e-6).sum()),
    }


def count_verdicts(table: pd.DataFrame) -> dict[str, int]:
    """How many responses have no answer, and about how many answers the verifier came to no verdict.

    Both count as wrong, in rewards and in the companions' targets.
    """
    return {
        "responses": len(table),
        "without_answer": int(table["answer"].isna().sum()),
        "undecided": int((~table["decided"]).sum()),
    }


def check_equal_budgets(
    rollouts: pd.DataFrame, resampled: pd.DataFrame, budgets: Sequence[int]
) -> list[dict[str, int]]:
    """PostCal has, step by step, the rollouts' questions with as many responses each (appendix B.2).

    Args:
        rollouts: from `read_table`.
        resampled: likewise.
        budgets: steps to report.

    Returns:
        By budget: its steps, questions, and responses of both.
    """
    counts = [table.groupby(_QUESTION).size() for table in (rollouts, resampled)]
    both = pd.concat(counts, axis=1, keys=["rollouts", "resampled"]).fillna(0).astype(np.int64)
    unequal = both[both["rollouts"] != both["resampled"]]
    if len(unequal):
        (step, dataset, question), (first, second) = unequal.index[0], unequal.iloc[0]
        raise ContractError(
            f"step {step}: question {question!r} of {dataset} has {first} rollouts and {second} resampled responses "
            f"({len(unequal)} such question(s)); PostCal needs the raw budget of CoCal: resample these questions anew"
        )
    prefixes = ((steps, both[both.index.get_level_values("step") <= steps]) for steps in budgets)
    return [{"steps": steps, "questions": len(part), **part.sum().to_dict()} for steps, part in prefixes]
