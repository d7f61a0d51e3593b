"""Checks of the responses that companions learn from: the rollouts (CoCal) and the resampled responses (PostCal)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.companion.supervision import check_chronological, groups_of, with_question
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
    """Read the labels of all responses in `folder` and the texts of their questions, but not the responses' texts.

    Raises:
        ContractError: if a table breaks its contract or a question is not in `questions`.
    """
    return with_question(read_frame(folder, RESPONSES, _COLUMNS), folder, questions)


def check_steps(table: pd.DataFrame, source: str | Path) -> dict[str, int]:
    """Check that responses are in the chronological order of their steps and no step is missing (section 4.1).

    Returns:
        The numbers of steps and responses.
    """
    check_chronological(table, source)
    steps = table["step"].unique()
    gaps = np.flatnonzero(steps != np.arange(1, len(steps) + 1))
    if len(gaps):
        raise ContractError(f"{source}: steps must count from 1; step {steps[gaps[0]]} is in place of {gaps[0] + 1}")
    return {"steps": len(steps), "responses": len(table)}


def check_group_accuracy(table: pd.DataFrame, source: str | Path) -> dict[str, int]:
    """Check that group accuracies are those of the original groups, truncated responses included (appendix A.1).

    Returns:
        The numbers of groups, of responses in each, and of groups whose accuracy would change after filtering.
    """
    group = groups_of(table)
    size, sizes = int(table["sample"].max()) + 1, np.bincount(group)
    correct, kept = table["correct"].to_numpy(), ~table["truncated"].to_numpy()
    accuracy = np.bincount(group, weights=correct) / sizes
    for wrong, problem in (
        ((sizes != size)[group], f"is in a group of fewer than the {size} sampled responses"),
        (np.abs(accuracy[group] - table["group_accuracy"]) > 1e-6, "has another accuracy than its original group"),
    ):
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise ContractError(
                f"{source}: response {table['response_id'].iloc[row]} (row {row}) {problem} ({wrong.sum()} such "
                "row(s)); group accuracies are taken over whole groups, before truncated responses are left out"
            )
    with np.errstate(invalid="ignore"):  # 0 / 0 if all responses of a group are truncated
        filtered = np.bincount(group[kept], correct[kept], len(sizes)) / np.bincount(group[kept], None, len(sizes))
    return {
        "groups": len(sizes),
        "responses_per_group": size,
        "groups_changed_by_filtering": int((np.abs(filtered - accuracy) > 1e-6).sum()),
    }


def count_verdicts(table: pd.DataFrame) -> dict[str, int]:
    """Count the responses without an answer and without a verdict; both are wrong in rewards and targets."""
    return {
        "responses": len(table),
        "without_answer": int(table["answer"].isna().sum()),
        "undecided": int((~table["decided"]).sum()),
    }


def check_equal_budgets(
    rollouts: pd.DataFrame, resampled: pd.DataFrame, budgets: Sequence[int]
) -> list[dict[str, int]]:
    """Check that PostCal has the same questions as the rollouts in each step, with as many responses (appendix B.2).

    Args:
        rollouts: Rollouts, from `read_table`.
        resampled: Resampled responses, from `read_table`.
        budgets: Budgets to report, in steps.

    Returns:
        The numbers of steps, of questions and of responses in both tables for each budget.
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
