"""The split of questions into training and validation.

Appendix A.1 says: "We split questions 90:10 into training and validation sets, keeping all responses to the same
question in the same partition." The table of hyperparameters says: "90% / 10% by question".
"""

import hashlib
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import floor

import numpy as np
import pandas as pd

from cocal.errors import ContractError
from cocal.questions.build import normalised


def in_validation(asked: Sequence[str], questions: Iterable[str], share: float, seed: int) -> np.ndarray:
    """Mark the rows that belong to validation, by the texts of their questions.

    Of the distinct texts in the question table, the share with the lowest keyed hashes is held out, rounded to the
    nearest whole number (halves up) and at least one text. The split depends on the table and not on the questions that
    a policy was asked, so all rollout prefixes, budgets, policies and PostCal share one split.

    Args:
        asked: Text of each row's question.
        questions: Texts of the whole question table. Texts that differ only in case or white space count once, even if
            their ids differ.
        share: Share of the distinct texts to hold out, between 0 and 1.
        seed: Key of the hash.

    Returns:
        bool (rows,), True for the rows of validation.

    Raises:
        ContractError: if a row's question is not in the table.
    """
    hashes = {text: _hash(text, seed) for text in {normalised(question) for question in questions}}
    # The fraction is exact for the decimal as written: 0.29 x 50 is 14.5, but the product of the floats is less.
    count = max(1, floor(Fraction(str(share)) * len(hashes) + Fraction(1, 2)))
    held_out = set(sorted(hashes, key=hashes.__getitem__)[:count])
    codes, texts = pd.factorize(np.asarray(asked, dtype=object))
    keys = [normalised(text) for text in texts]
    unknown = next((text for text in keys if text not in hashes), None)
    if unknown is not None:
        raise ContractError(f"the question {unknown!r} is not in the question table")
    return np.array([text in held_out for text in keys], dtype=bool)[codes]


def _hash(text: str, seed: int) -> bytes:
    # 16 bytes make collisions negligible
    return hashlib.blake2b(text.encode(), digest_size=16, key=f"split {seed}".encode()).digest()
