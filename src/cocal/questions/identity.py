"""What tells one question set from another."""

import pandas as pd

from cocal.store.provenance import digest


def texts_digest(questions: pd.DataFrame) -> str:
    """Digest of what is asked: ids and texts in their order.

    Args:
        questions: rows in the contract of cocal.store.contracts.QUESTIONS.
    """
    return digest([questions["question_id"].tolist(), questions["question"].tolist()])


def golds_digest(questions: pd.DataFrame) -> str:
    """Digest of what counts as right: ids, answers and aliases in their order.

    A run that resumed after a correction of these would mix two kinds of verdicts.

    Args:
        questions: rows in the contract of cocal.store.contracts.QUESTIONS.
    """
    aliases = [list(some) for some in questions["aliases"]]
    return digest([questions["question_id"].tolist(), questions["answer"].tolist(), aliases])


def questions_digests(questions: pd.DataFrame) -> dict[str, str]:
    """Both digests, for the digest of a run that samples and judges in one: `questions` and `golds`."""
    return {"questions": texts_digest(questions), "golds": golds_digest(questions)}
