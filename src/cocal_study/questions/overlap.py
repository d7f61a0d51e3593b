"""Questions that occur both in training and in evaluation."""

import logging
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from cocal.errors import ContractError
from cocal.store.damage import remedy
from cocal_study.config.data import GivenSettings, Overlap, QuestionSourceSettings

_TYPESETTING = re.compile(r"\\(?:left|right|[cl]?dots|text)(?![a-z])|\\[dt](?=frac)")
_TOKEN = re.compile(r"[^\W\d_]+|\d+(?:\.\d+)?|[-+*/^=<>|%!]")


def fingerprint(question: str) -> str:
    r"""The words, numbers and operators of a question, which questions that differ only in typesetting share.

    Case, white space, punctuation, brackets, dollar signs and LaTeX's sizes do not matter: `x_{1}, \ldots` equals
    `x_1...`, but `1.5` differs from `15`, and `3-4` from `3+4`.
    """
    text = unicodedata.normalize("NFKC", question).lower()
    return " ".join(_TOKEN.findall(_TYPESETTING.sub("", text))) or text


def overlaps(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Evaluation questions of these sets that are also asked in training: one row for each pair, with dataset,
    question_id and question of evaluation, training_set and training_id."""
    asked = pd.concat(frames, ignore_index=True)[["split", "dataset", "question_id", "question"]]
    asked["print"] = asked["question"].map(fingerprint)
    training = asked["split"] == "training"
    theirs = asked[training].rename(columns={"dataset": "training_set", "question_id": "training_id"})
    pairs = asked[~training].merge(theirs[["print", "training_set", "training_id"]], on="print")
    return pairs.drop(columns=["split", "print"])


def settle(
    training: pd.DataFrame, evaluation: Sequence[pd.DataFrame], source: QuestionSourceSettings, policy: Overlap
) -> pd.DataFrame:
    """The training set of this source after `policy` was applied to the questions that it shares with evaluation sets.
    Raises ContractError if there are shared questions and the policy is "refuse" or the training set is synthetic."""
    shared = overlaps([training, *evaluation]) if evaluation else training[:0]
    if shared.empty:
        return training
    row = shared.iloc[0]
    if policy == "refuse" or not isinstance(source, GivenSettings):
        raise ContractError(
            f"{training['dataset'].iloc[0]} and {row['dataset']} share {len(shared)} question(s), first "
            f"{row['question_id']}: {row['question']!r}; training and evaluation must be disjoint by text"
        )
    logging.warning("%d evaluation question(s) also occur in training: %s", len(shared), policy)
    if policy == "report":
        return training
    return training[~training["question_id"].isin(shared["training_id"])].reset_index(drop=True)


def excluded_or_kept(
    built: Mapping[str, pd.DataFrame], sources: Mapping[str, pd.DataFrame], policy: Overlap, folder: Path
) -> pd.DataFrame:
    """`overlaps` of the given training sets before `settle`, with the column action: "kept" if the set built from one,
    which lies in `folder`, still asks the question, else "excluded". Raises ContractError if a training question is
    kept that the policy excludes.
    """
    shared = overlaps((dict(built) | dict(sources)).values())
    asked = {name: set(frame["question_id"]) for name, frame in built.items()}
    pairs = zip(shared["training_set"], shared["training_id"], strict=True)
    shared["action"] = ["kept" if question in asked[name] else "excluded" for name, question in pairs]
    if policy == "exclude" and (shared["action"] == "kept").any():
        row = shared[shared["action"] == "kept"].iloc[0]
        table = folder / f"{row['training_set']}.parquet"
        raise ContractError(
            f"{table} still asks {row['training_id']}, which is {row['question_id']} of {row['dataset']}; "
            f"{remedy(table)}"
        )
    return shared
