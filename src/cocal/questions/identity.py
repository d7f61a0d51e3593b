"""Digests of question sets."""

import pandas as pd

from cocal.store.provenance import digest


def texts_digest(questions: pd.DataFrame) -> str:
    """Digest of the ids and texts of the questions, in the order of the rows of a QUESTIONS table."""
    return digest([questions["question_id"].tolist(), questions["question"].tolist()])


def golds_digest(questions: pd.DataFrame) -> str:
    """Digest of the ids, answers and aliases, in the order of the rows of a QUESTIONS table.

    A run that resumed after a correction of the answers would mix two kinds of verdicts.
    """
    aliases = [list(some) for some in questions["aliases"]]
    return digest([questions["question_id"].tolist(), questions["answer"].tolist(), aliases])


def questions_digests(questions: pd.DataFrame) -> dict[str, str]:
    """Both digests, `questions` and `golds`, for the digest of a run that samples and judges."""
    return {"questions": texts_digest(questions), "golds": golds_digest(questions)}
