"""Verdicts on single pairs of answers."""

import numpy as np

from cocal.answers.equivalence import Verifier

HANGING = r"\int_0^1 \int_0^1 \int_0^1 e^{xyz} \, dx \, dy \, dz"
"""An answer whose comparison with a number is given up."""


def equivalent(verifier: Verifier, pairs: list[tuple[str, str]]) -> np.ndarray:
    """True for each (gold, answer) pair that is equivalent, bool (n,)."""
    return verifier.correct([[gold] for gold, _ in pairs], [answer for _, answer in pairs]).values
