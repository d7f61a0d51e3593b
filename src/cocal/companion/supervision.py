"""The supervision that policy training provides: targets, and the split of questions."""

import hashlib
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import floor

import numpy as np
import pandas as pd

from cocal.companion.settings import Target
from cocal.errors import ContractError
from cocal.store.rows import normalised


def confidence_targets(target: Target, correct: np.ndarray, group_accuracy: np.ndarray) -> np.ndarray:
    """Compute the values that a companion with this target learns to predict, float32 (n,) in [0, 1] (section 4.2).

    The target "binary" is the correctness y, "group" is the accuracy of the response's group if y = 1 and 0 otherwise,
    and "question" is the accuracy of the group in either case, since there is no response yet (appendix F.4).

    Args:
        target: Name of the target.
        correct: bool (n,), correctness of each response; ignored for the target "question".
        group_accuracy: float (n,) in [0, 1], accuracy of each response's group, truncated ones too (appendix A.1).
    """
    if target == "binary":
        return np.asarray(correct, dtype=np.float32)
    if target == "question":
        return np.asarray(group_accuracy, dtype=np.float32)
    return np.where(correct, group_accuracy, 0.0).astype(np.float32)


def in_validation(asked: Sequence[str], questions: Iterable[str], share: float, seed: int) -> np.ndarray:
    """Mark the rows that belong to validation, by the texts of their questions.

    Of the distinct texts in the question table, the share with the lowest keyed hashes is held out, rounded to the
    nearest whole number (halves up) and at least one text. The split depends on the table and not on the questions that
    a policy was asked, so all rollout prefixes, budgets, policies and PostCal share one split. Raises a ContractError
    if a row's question is not in the table.

    Args:
        asked: Text of each row's question.
        questions: Texts of the whole question table; those that differ only in case or white space count once.
        share: Share of the distinct texts to hold out, between 0 and 1.
        seed: Key of the hash.

    Returns:
        bool (rows,), True for the rows of validation.
    """
    key = f"split {seed}".encode()
    hashes = {  # 16 bytes make collisions negligible
        text: hashlib.blake2b(text.encode(), digest_size=16, key=key).digest()
        for text in set(map(normalised, questions))
    }
    # The fraction is exact for the decimal as written: 0.29 x 50 is 14.5, but the product of the floats is less.
    count = max(1, floor(Fraction(str(share)) * len(hashes) + Fraction(1, 2)))
    held_out = set(sorted(hashes, key=hashes.__getitem__)[:count])
    codes, texts = pd.factorize(np.asarray(asked, dtype=object))
    keys = [normalised(text) for text in texts]
    unknown = next((text for text in keys if text not in hashes), None)
    if unknown is not None:
        raise ContractError(f"the question {unknown!r} is not in the question table")
    return np.array([text in held_out for text in keys], dtype=bool)[codes]
