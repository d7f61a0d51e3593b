"""Which responses answer the same question: their prompts tell, whatever ids the rows state."""

from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd

from cocal.store.rows import normalised


def same_question(
    texts: Sequence[str | None], prompts: Sequence[Hashable | None], ids: Sequence[str | None]
) -> np.ndarray:
    """Number the questions of n rows in the order in which they first occur, int64 (n,).

    Rows with one text (but for case and white space) have one question. A row without a text has that of the first text
    with its token ids, and one without both that of the first row with its question id; otherwise its token ids or its
    question id tell. A row that has none of them is a question of its own.

    Args:
        texts: Text of each row's prompt.
        prompts: Token ids of each row's prompt.
        ids: Question id that each row states.
    """
    question = pd.Series([text and normalised(text) for text in texts], dtype=object)
    for kind, column in (("ids", prompts), ("name", ids)):
        names = pd.Series([None if one is None else (kind, one) for one in column], dtype=object)
        question = question.fillna(question.groupby(names).transform("first")).fillna(names)
    question = question.fillna(pd.Series(range(len(question))))
    return pd.factorize(question)[0].astype(np.int64)


def contradictions(question: np.ndarray, ids: Sequence[str | None]) -> list[str]:
    """Sentences about ids that do not tell questions apart as the prompts do.

    Args:
        question: The question of each row, from `same_question`, int64 (n,).
        ids: What each row states.
    """
    stated = pd.DataFrame({"question": question, "id": np.fromiter(ids, dtype=object, count=len(question))})
    stated = stated.dropna().drop_duplicates()
    several, shared = (int((stated[name].value_counts() > 1).sum()) for name in ("question", "id"))
    found = []
    if several:
        found.append(
            f"{several:,} prompts stand under more than one question_id; rows of one prompt count as one question"
        )
    if shared:
        found.append(f"{shared:,} values of question_id stand for more than one prompt, which count as questions each")
    return found
