"""The rollouts that calibrators learn from: the rows of the companions, and never an evaluation question."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from cocal.answers.judge import Judge
from cocal.companion.split import in_validation
from cocal.companion.supervision import groups_of, question_texts, read_rollouts
from cocal.config.evaluation import CompanionSettings
from cocal.errors import ContractError
from cocal.methods.token_probability import least_token_probability
from cocal.questions.overlap import fingerprint
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES

Part = Literal["training", "held out", "truncated"]
"""The rows on which companions are trained, those that choose their best pass, and those that they leave out."""


def read_experience(
    folder: Path, questions: Path, steps: int, companion: CompanionSettings, evaluated: pd.DataFrame
) -> pd.DataFrame:
    """Read the rollouts of steps 1 to `steps` with what the scores need of them. All fits learn from this table alone.

    Args:
        folder: Folder of rollout tables (`cocal.store.contracts.RESPONSES`).
        questions: Table of all training questions (`cocal.store.contracts.QUESTIONS`).
        steps: Last step to read.
        companion: Settings of the companions, whose split of the questions is taken.
        evaluated: Questions of all evaluation sets (columns dataset, question_id, question).

    Returns:
        The table of `cocal.companion.supervision.read_rollouts` with the columns answer, mean_logprob, confidence,
        least_token_probability, pool (number of the group) and part (`Part`).

    Raises:
        ContractError: if a table breaks its contract, if a question is among those of an evaluation set, or for a
            reason that `read_rollouts` names.
    """
    rollouts = read_rollouts(folder, questions, steps)
    refuse_evaluated(rollouts["question"].unique(), evaluated, folder)
    scored = []
    for file in sorted(folder.glob("*.parquet")):  # the log-probabilities of a whole training do not fit into memory
        part = read_frame(file, RESPONSES, ["answer", "mean_logprob", "confidence", "logprobs"])
        scored.append(part.assign(least_token_probability=least_token_probability(part.pop("logprobs"))))
    columns = pd.concat(scored, ignore_index=True).iloc[: len(rollouts)]
    parts = parts_of(rollouts, question_texts(questions), companion)
    return rollouts.assign(**columns, pool=groups_of(rollouts), part=parts)


def parts_of(rollouts: pd.DataFrame, questions: Sequence[str], companion: CompanionSettings) -> np.ndarray:
    """The `Part` of each rollout, str (n,) as objects.

    Args:
        rollouts: Table with the columns question and truncated.
        questions: Texts of all training questions.
        companion: Settings of the companions, whose split of the questions is taken.
    """
    held_out = in_validation(rollouts["question"], questions, companion.validation_share, companion.split_seed)
    parts = np.where(held_out, "held out", "training").astype(object)
    parts[rollouts["truncated"].to_numpy()] = "truncated"
    return parts


def with_classes(rollouts: pd.DataFrame, judge: Judge) -> pd.DataFrame:
    """Compare the answers of each group with one another, those of truncated responses included, as the group accuracy
    counts them too (appendix A.1).

    Args:
        rollouts: Table from `read_experience`.
        judge: Judge of mathematical answers.

    Returns:
        The table with the column answer_class (`cocal.store.contracts.RESPONSES`).
    """
    answers = [None if pd.isna(answer) else answer for answer in rollouts["answer"]]
    verdicts = judge.classes(answers, rollouts["pool"].tolist(), rollouts["question"].tolist())
    return rollouts.assign(answer_class=verdicts.values)


def refuse_evaluated(asked: Sequence[str], evaluated: pd.DataFrame, source: str | Path) -> None:
    """Refuse questions that an evaluation set asks too: no label of an evaluation may reach a fit.

    Args:
        asked: Texts of the questions from whose responses a calibrator would learn.
        evaluated: Questions of all evaluation sets (columns dataset, question_id, question).
        source: Where the responses are from, for error messages.

    Raises:
        ContractError: if a question is among those of an evaluation set; typesetting, case and white space do not
            matter (`cocal.questions.overlap.fingerprint`).
    """
    leaked = evaluated[evaluated["question"].map(fingerprint).isin({fingerprint(text) for text in asked})]
    if len(leaked):
        first = leaked.iloc[0]
        raise ContractError(
            f"{source}: a calibrator would learn from responses to {len(leaked)} question(s) that it is evaluated on, "
            f"first {first['question_id']!r} of {first['dataset']}: {first['question']!r}; leave them out of training "
            "(`sources: {overlap: exclude}`)"
        )
