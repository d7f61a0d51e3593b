"""Training and validation questions.

Appendix A.1: "We split questions 90:10 into training and validation sets, keeping all responses to the same question in
the same partition." The table of hyperparameters: "90% / 10% by question".
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
    """Which rows belong to validation, decided by the text of the question that they answer.

    Of the distinct texts of the question table, those with the lowest keyed hashes are held out: exactly `share` of
    them, rounded to a whole number with halves up, and at least one. The table decides, not what a policy happened to
    be asked: rollout prefixes, budgets, PostCal and every policy share one split, and a question never changes sides.

    Args:
        asked: text of the question of each row.
        questions: texts of the whole question table. Texts that are equal up to case and white space count once,
            whatever their ids.
        share: of the distinct texts, between 0 and 1.
        seed: key of the hash.

    Returns:
        bool (rows,).

    Raises:
        ContractError: if a question was asked that is not in the table.
    """
    hashes = {text: _hash(text, seed) for text in {normalised(question) for question in questions}}
    # As written: 0.29 x 50 is 14.5, though the product of the floats is less.
    count = max(1, floor(Fraction(str(share)) * len(hashes) + Fraction(1, 2)))
    held_out = set(sorted(hashes, key=hashes.__getitem__)[:count])
    codes, texts = pd.factorize(np.asarray(asked, dtype=object))
    keys = [normalised(text) for text in texts]
    unknown = next((text for text in keys if text not in hashes), None)
    if unknown is not None:
        raise ContractError(f"the question {unknown!r} is not in the question table that is split")
    return np.array([text in held_out for text in keys], dtype=bool)[codes]


def _hash(text: str, seed: int) -> bytes:
    """Pseudo-random order of the texts; 16 bytes, so that no two are equal."""
    return hashlib.blake2b(text.encode(), digest_size=16, key=f"split {seed}".encode()).digest()
