"""Which responses answer the same question: their prompts tell, whatever ids the rows state."""

import logging
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cocal.errors import ContractError
from cocal.store.rows import normalised

_COPIED = 10
"""Least number of different rows whose repetition is no accident, provided that they are a quarter of all rows."""


def same_question(
    texts: Sequence[str | None], prompts: Sequence[Hashable | None], ids: Sequence[str | None]
) -> np.ndarray:
    """Number the questions of n rows in the order in which they first occur, int64 (n,).

    Rows with one text (but for case and white space) have one question. Rows without a text are those of their token
    ids, and rows without both those of their question id. A row that has none of them is a question of its own.

    Args:
        texts, prompts, ids: Text and token ids of each row's prompt, and the question id that the row states.
    """
    lacking, rows, nodes = np.ones(len(texts), dtype=bool), [], []
    first = len(texts)
    for column in ([text and normalised(text) for text in texts], prompts, ids):
        codes, values = pd.factorize(np.fromiter(column, dtype=object, count=len(texts)))
        linked = np.flatnonzero((codes >= 0) & np.isin(codes, codes[lacking]))
        rows.append(linked)
        nodes.append(first + codes[linked])
        lacking &= codes < 0
        first += len(values)
    ends = np.concatenate(rows), np.concatenate(nodes)
    _, component = connected_components(coo_array((np.ones(len(ends[0])), ends), shape=(first, first)), directed=False)
    return pd.factorize(component[: len(texts)])[0].astype(np.int64)


def copies(rows: Sequence[Hashable], where: Callable[[int], str], what: str) -> list[str]:
    """A sentence about repeated rows (`what` names what tells rows apart), with a warning if every row is repeated.
    Raises a ContractError at the row where a second copy of the first half begins."""
    each = pd.Series(rows, dtype=object).map(hash)
    half = len(each) // 2
    various = each.nunique() >= max(_COPIED, half / 2)
    if various and (each[:half].to_numpy() == each[half : 2 * half].to_numpy()).all():
        raise ContractError(
            f"{where(half)}: from here on the rows repeat those before it, in the same order; delete one of both "
            "halves, since copies make everything look surer than it is"
        )
    if not (count := int(each.duplicated().sum())):
        return []
    said = f"{count:,} row{'s repeat' if count > 1 else ' repeats'} {what} of another; delete those that are copies"
    if various and each.duplicated(keep=False).all():
        logging.warning("every row is there more than once (%s): are some files copies of others?", what)
    return [said]


def contradictions(question: np.ndarray, ids: Sequence[str | None]) -> list[str]:
    """Sentences about stated ids that do not tell questions (`same_question`, int64 (n,)) apart as prompts do."""
    stated = pd.DataFrame({"question": question, "id": np.fromiter(ids, dtype=object, count=len(question))})
    stated = stated.dropna().drop_duplicates()
    several, shared = (int((stated[name].value_counts() > 1).sum()) for name in ("question", "id"))
    said = []
    if several:
        said.append(
            f"{several:,} prompts stand under more than one question_id; rows of one prompt count as one question"
        )
    if shared:
        said.append(
            f"{shared:,} values of question_id stand for more than one prompt, which count as questions each; if they "
            "are one in other words, quality on held-out questions looks better than it is, and intervals too narrow"
        )
    return said
