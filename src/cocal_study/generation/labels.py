"""Labels of the rollouts that companions learn from, read from the tables of a training, and the states that match."""

from pathlib import Path

import numpy as np
import pandas as pd

from cocal.errors import ContractError
from cocal.features.store import FeatureReader
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal_study.store.contracts import QUESTIONS

_QUESTION = ["dataset", "question_id"]
_COLUMNS = [*_QUESTION, "response_id", "step", "sample", "length", "finish_reason"]
_COLUMNS += ["truncated", "correct", "group_accuracy"]


def read_rollouts(folder: str | Path, questions: str | Path, steps: int) -> pd.DataFrame:
    """Read the labels of the rollouts of steps 1 to `steps` from a folder of tables (contract RESPONSES), without token
    ids and response texts; the texts of a question table (contract QUESTIONS) become the column question. Raises
    ContractError if a table breaks its contract, rows are not in chronological order, a step or a question is missing,
    or a group accuracy is not that of the whole group."""
    rollouts = read_frame(folder, RESPONSES, _COLUMNS)
    _check_chronological(rollouts, folder)
    first, last = rollouts["step"].min(), rollouts["step"].max()
    prefix = rollouts[rollouts["step"] <= steps].reset_index(drop=True)
    absent = sorted(set(range(1, steps + 1)) - set(prefix["step"]))
    if absent or first < 1:
        missing = f" without {', '.join(map(str, absent[:5]))}" if absent else ""
        raise ContractError(f"{folder}: steps 1 to {steps} are needed, found {first} to {last}{missing}")
    _check_groups(prefix, folder)
    texts = read_frame(questions, QUESTIONS, [*_QUESTION, "question"])
    merged = prefix.merge(texts, on=_QUESTION, how="left", validate="many_to_one")
    unknown = merged[merged["question"].isna()]
    if len(unknown):
        row = unknown.iloc[0]
        raise ContractError(
            f"{folder}: question {row['question_id']!r} of dataset {row['dataset']!r} (response "
            f"{row['response_id']}) is not in {questions}; {len(unknown)} such row(s)"
        )
    return merged


def read_prompts(folder: str | Path, questions: str | Path, steps: int) -> pd.DataFrame:
    """Return `prompts_of` the rollouts that `read_rollouts` reads, with length 1 in every row (appendix F.4)."""
    return prompts_of(read_rollouts(folder, questions, steps)).assign(length=1)


def prompts_of(rollouts: pd.DataFrame) -> pd.DataFrame:
    """Reduce rollouts to one row for each group, the group's first response, in which `correct` is the group accuracy,
    truncated responses included, `truncated` is False, and `response_id` is the row number."""
    groups = rollouts[rollouts["sample"] == 0].reset_index(drop=True)
    return groups.assign(response_id=groups.index, truncated=False, correct=groups["group_accuracy"])


def groups_of(responses: pd.DataFrame) -> np.ndarray:
    """Number the groups of responses to the same question in the same step, int64 (n,), from the columns step, dataset,
    question_id and sample. A question that occurs twice in a step, because an epoch ends there, has two."""
    question = ["step", *_QUESTION]
    occurrence = responses.groupby([*question, "sample"], sort=False).cumcount()
    return responses.groupby([*question, occurrence], sort=False).ngroup().to_numpy()


def _check_chronological(rollouts: pd.DataFrame, source: str | Path) -> None:
    """Check that, from row to row, steps never decrease and response ids increase (section 4.1)."""
    for column, least in (("step", 0), ("response_id", 1)):
        early = np.flatnonzero(np.diff(rollouts[column].to_numpy()) < least)
        if len(early):
            row = early[0] + 1
            before, after = rollouts[column].iloc[[row - 1, row]]
            raise ContractError(
                f"{source}: rollouts must be in chronological order, but column {column!r} goes from {before} to "
                f"{after} at row {row}; name the files so that they sort by step"
            )


def check_features(rollouts: pd.DataFrame, features: FeatureReader) -> None:
    """Check that each row of the features belongs to the same row of `rollouts`, a table from `read_rollouts`.
    Raises ContractError if a row differs; the error names the first one."""
    if len(features) < len(rollouts):
        raise ContractError(f"{features.path}: holds {len(features)} rows for {len(rollouts)} rollouts")
    for column in ("response_id", "question_id", "length"):
        expected, stored = rollouts[column].to_numpy(), getattr(features, column)
        different = np.flatnonzero(stored[: len(expected)] != expected)
        if len(different):
            row = different[0]
            raise ContractError(
                f"{features.path}: {column} is {stored[row]!s} at row {row}, the rollouts have {expected[row]!s} "
                f"({len(different)} such row(s)); extract features and rollouts from the same run"
            )


def question_texts(questions: str | Path) -> list[str]:
    """Read the texts of a question table (contract QUESTIONS) in the table's order."""
    return read_frame(questions, QUESTIONS, ["question"])["question"].tolist()


def _check_groups(rollouts: pd.DataFrame, folder: str | Path) -> None:
    """Check that the accuracy of each complete group counts all its responses, truncated ones included."""
    groups = rollouts.groupby(["step", *_QUESTION], sort=False)
    size = rollouts["sample"].max() + 1
    complete = (groups["sample"].transform("size") == size) & (groups["sample"].transform("nunique") == size)
    mean = groups["correct"].transform("mean")
    wrong = np.flatnonzero(complete & ((mean - rollouts["group_accuracy"]).abs() > 1e-6))
    if len(wrong):
        row = rollouts.iloc[wrong[0]]
        raise ContractError(
            f"{folder}: group_accuracy of response {row['response_id']} is {row['group_accuracy']:.4f}, but "
            f"{mean[wrong[0]]:.4f} of its group's {size} responses are correct ({len(wrong)} such row(s)); it must "
            "be taken over the whole group, before truncated responses are filtered out"
        )
