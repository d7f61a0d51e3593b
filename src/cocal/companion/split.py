"""Training and validation questions (appendix A.1: 90:10, all responses to a question on one side)."""

import hashlib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from cocal.questions.build import normalised


def in_validation(questions: Sequence[str], share: float, seed: int) -> np.ndarray:
    """Which rows belong to validation, decided by the question's text alone.

    A text is in validation if its keyed hash, as a number in [0, 1), lies below `share`. A threshold rather
    than the lowest-ranking tenth: the side of a question then depends on nothing but its text and the seed,
    neither on row order nor on what else is in the data. Rollout prefixes, budgets, PostCal and every policy
    share one split; the validation pool of a prefix is the full pool restricted to it, and a question never
    changes sides. The price is that the share is met in expectation only, and that a prefix of very few
    questions may have no validation question; who fits must refuse that.

    Args:
        questions: texts, one a row; equal up to case and white space counts as equal, whatever their ids.
        share: of the questions, in expectation.
        seed: key of the hash.

    Returns:
        bool (n,).
    """
    codes, texts = pd.factorize(np.asarray(questions, dtype=object))
    return np.array([_position(text, seed) < share for text in texts], dtype=bool)[codes]


def _position(question: str, seed: int) -> float:
    """Pseudo-random position of a text in [0, 1)."""
    digest = hashlib.blake2b(normalised(question).encode(), digest_size=8, key=f"split {seed}".encode()).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53
