"""Checks of the responses that companions learn from, rollouts (CoCal) and resampled responses (PostCal), and of the
fitted companions against the protocol and these responses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.companion.spec import CompanionSpec
from cocal.errors import ContractError
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal.store.rows import normalised
from cocal_study.config.method import Experience
from cocal_study.generation.labels import groups_of, read_rollouts
from cocal_study.provenance.lineage import Product


def read_table(folder: Path, questions: Path) -> pd.DataFrame:
    """Read the labels of all responses in `folder` and the texts of their questions, but not the responses' texts.
    Raises ContractError if a table breaks its contract or lies in the place of another, or for a reason that
    `cocal_study.generation.labels.read_rollouts` names."""
    _ = Product(folder).attributes  # raises an error if the table is another's, before companions are blamed
    more = read_frame(folder, RESPONSES, ["step", "answer", "decided"])
    table = read_rollouts(folder, questions, int(more["step"].max()))
    return table.assign(answer=more["answer"], decided=more["decided"])


def check_groups(table: pd.DataFrame, source: str | Path) -> dict[str, int]:
    """Check that all groups are complete, truncated responses included, because accuracies count these (appendix A.1).
    Returns the numbers of groups, of responses in each, and of groups whose accuracy would change after filtering."""
    group = groups_of(table)
    size, sizes = int(table["sample"].max()) + 1, np.bincount(group)
    if (partial := (sizes != size)[group]).any():
        row = int(np.flatnonzero(partial)[0])
        raise ContractError(
            f"{source}: response {table['response_id'].iloc[row]} (row {row}) is in a group of fewer than the {size} "
            f"sampled responses ({partial.sum()} such row(s)); give whole groups, truncated responses included"
        )
    correct, kept = table["correct"].to_numpy(), ~table["truncated"].to_numpy()
    accuracy = np.bincount(group, weights=correct) / sizes
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
    Returns the numbers of steps, of questions and of responses in both tables for each budget."""
    counts = [table.groupby(["step", "dataset", "question_id"]).size() for table in (rollouts, resampled)]
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


@dataclass(frozen=True)
class Fit:
    """Companions of all targets and seeds that were fitted on one prefix."""

    folder: Path
    """Output folder of `cocal companions`."""
    experience: Experience
    spec: CompanionSpec
    """Spec that was saved with them."""

    def with_numbers(self, **numbers: int | float | str | None) -> dict[str, int | float | str | None]:
        """Return the result of a check: the experience, the steps and the numbers that it checked."""
        return {"experience": self.experience, **self.spec.prefix._asdict(), **numbers}


def check_disjoint(fit: Fit, table: pd.DataFrame, held_out: np.ndarray) -> dict:
    """Check that no question of the responses in `table` is both in training and in validation (appendix A.1);
    `held_out`, bool (rows,), is true for each row that the split puts in validation."""
    training, validation = (
        {normalised(text) for text in table["question"][rows].unique()} for rows in _partition(fit, table, held_out)
    )
    if shared := sorted(training & validation):
        raise ContractError(
            f"{fit.folder}: question {shared[0]!r} has responses in training and in validation "
            f"({len(shared)} such question(s)); the split must go by question"
        )
    return fit.with_numbers(training_questions=len(training), validation_questions=len(validation))


def check_truncation(fit: Fit, table: pd.DataFrame, held_out: np.ndarray) -> dict:
    """Check that the companions used exactly the responses of their prefix that are not truncated (appendix A.1), by
    recomputing their numbers from the table. The arguments are those of `check_disjoint`."""
    training, validation = _partition(fit, table, held_out)
    for part, rows, steps in zip(("training", "validation"), (training, validation), fit.spec.prefix, strict=True):
        column = f"{part}_responses"
        if getattr(fit.spec, column) != rows.sum():
            raise ContractError(
                f"{fit.folder}: {column} is {getattr(fit.spec, column)}, but steps 1 to {steps} hold {rows.sum()} that "
                "are not truncated; fit the companions anew, on the responses of this study"
            )
    share = float(1 - table["correct"].to_numpy()[training].mean())
    if not math.isclose(share, fit.spec.training_error_share, abs_tol=1e-9):
        raise ContractError(
            f"{fit.folder}: training_error_share is {fit.spec.training_error_share:.6f}, but {share:.6f} of the "
            "training responses are incorrect; fit the companions anew"
        )
    prefix = (table["step"] <= fit.spec.steps).to_numpy()
    return fit.with_numbers(
        responses=int(prefix.sum()),
        truncated=int(table["truncated"].to_numpy()[prefix].sum()),
        training=fit.spec.training_responses,
        validation=fit.spec.validation_responses,
        training_error_share=share,
    )


def _partition(fit: Fit, table: pd.DataFrame, held_out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mark the rows of training and of validation, bool (rows,) each."""
    last = int(table["step"].max())
    if max(fit.spec.prefix) > last:
        raise ContractError(
            f"{fit.folder}: fitted on {max(fit.spec.prefix)} steps, but there are only {last} of {fit.experience}"
        )
    complete, step = ~table["truncated"].to_numpy(), table["step"].to_numpy()
    training, validation = (complete & (step <= steps) for steps in fit.spec.prefix)
    return training & ~held_out, validation & held_out
