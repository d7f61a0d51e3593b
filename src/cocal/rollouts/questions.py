"""Which responses answer the same question: this is decided by their prompts, and not by ids that the rows state."""

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import pandas as pd

from cocal.errors import ContractError
from cocal.store.rows import normalised

_COPIED = 10
"""Least number of different rows whose repetition is no accident, provided that they are a quarter of all rows."""


def same_question(
    texts: Sequence[str | None], prompts: Sequence[Hashable | None], ids: Sequence[str | None]
) -> np.ndarray:
    """Number the questions of n rows in the order in which they first occur, int64 (n,).

    Rows with the same text, up to case and white space, have one question. Rows without a text are matched by their
    token ids, and rows without both by their question id. A row without any of them is a question of its own.

    Args:
        texts, prompts, ids: Text and token ids of each row's prompt, and the question id that the row states.
    """
    found: list = [None] * len(texts)
    for kind, names in enumerate(([text and normalised(text) for text in texts], prompts, ids)):
        known = {name: one for name, one in zip(names, found, strict=True) if one is not None}
        found = [
            known.get(name, (kind, name)) if one is None and not pd.isna(name) else one
            for name, one in zip(names, found, strict=True)
        ]
    found = [place if one is None else one for place, one in enumerate(found)]
    return pd.factorize(np.fromiter(found, dtype=object, count=len(found)))[0].astype(np.int64)


def copies(rows: Sequence[Hashable], where: Callable[[int], str], what: str) -> list[str]:
    """A sentence about repeated rows, of which `what` is compared. Raises a ContractError that names the row where the
    second half begins if it repeats the first."""
    each = pd.Series(rows, dtype=object).map(hash)
    half = len(each) // 2
    halves = (each[:half].to_numpy() == each[half : 2 * half].to_numpy()).all()
    if halves and each.nunique() >= max(_COPIED, half / 2):
        raise ContractError(
            f"{where(half)}: from here on the rows repeat those before it, in the same order; delete one of both "
            "halves, since copies make everything look surer than it is"
        )
    count = int(each.duplicated().sum())
    return [f"{count:,} rows repeat {what} of others; delete those that are copies"] if count else []


def contradictions(question: np.ndarray, ids: Sequence[str | None]) -> list[str]:
    """Sentences about stated ids that do not tell questions (`same_question`, int64 (n,)) apart as prompts do."""
    stated = pd.DataFrame({"question": question, "id": np.fromiter(ids, dtype=object, count=len(question))})
    stated = stated.dropna().drop_duplicates()
    several, shared = (int((stated[name].value_counts() > 1).sum()) for name in ("question", "id"))
    if not several and not shared:
        return []
    return [
        f"{several:,} prompts stand under more than one question_id, and {shared:,} values of question_id for more "
        "than one prompt; prompts alone tell questions: if some are one in other words, quality on held-out questions "
        "looks better than it is, and intervals too narrow"
    ]
