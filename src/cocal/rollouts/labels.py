"""Labels of responses: which rewards mean a correct one."""

from collections.abc import Callable

import numpy as np

from cocal.errors import ContractError
from cocal.rollouts.sample import Sample

NO_LABEL = "it has no label"
"""Reason to leave a response out."""


def correctness(rewards: np.ndarray, where: Callable[[int], str], above: float | None = None) -> tuple[np.ndarray, str]:
    """Which of the rewards, float64 (n,), mean a correct response, bool (n,), and what was assumed, in words.

    Rewards are 0 and 1, or -1 and 1; for another one, a ContractError names file and row (`where`). With `above`, those
    above that number are correct; a ContractError refuses a number that makes all responses the same.
    """
    if above is not None:
        if len(rewards) and not rewards.min() <= above < rewards.max():
            raise ContractError(
                f"--correct-above {above:g} makes all responses the same: the rewards are from {rewards.min():g} to "
                f"{rewards.max():g}; give a number between them"
            )
        return rewards > above, f"a reward above {above:g} means correct"
    wrong = -1.0 if -1.0 in rewards and 0.0 not in rewards else 0.0
    odd = np.flatnonzero((rewards != wrong) & (rewards != 1.0))
    if len(odd):
        raise ContractError(
            f"{where(int(odd[0]))}: the reward {rewards[odd[0]]:g} is neither 1 (correct) nor {wrong:g} (wrong), and "
            f"so are {len(odd):,} of {len(rewards):,}; say from where on a response is correct (--correct-above 0.5), "
            "or name the field of correctness (--field correct=FIELD)"
        )
    return rewards == 1.0, f"1 means correct, {wrong:g} wrong" if wrong in rewards else "1 means correct"


def check_bound(sample: Sample, above: float | None) -> None:
    """Raise a ContractError if a response has a verdict that a bound for rewards would reverse."""
    if sample.correct is not None and above is not None and not 0 <= above < 1:
        raise ContractError(
            f"{sample.where}: has a verdict, and --correct-above {above:g} is for rewards; leave the flag out, or name "
            "the field of the reward by --field reward=NAME"
        )
