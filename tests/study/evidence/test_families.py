"""Families of claims: the verdict that the members share, whichever of them say nothing."""

import pytest

from cocal_study.evidence.predicates import FAILS, HOLDS
from cocal_study.evidence.verdicts import (
    MIXED,
    NOT_ASSESSABLE,
    NOT_GATHERED,
    REPLICATES,
    STUDY,
    UNDER_SPECIFIED,
    of_families,
)
from judged_claims import judged

SHARED = [
    ([HOLDS, NOT_GATHERED, HOLDS], HOLDS),
    ([NOT_GATHERED, FAILS, NOT_ASSESSABLE], FAILS),
    ([NOT_GATHERED] * 3, NOT_GATHERED),
    ([NOT_ASSESSABLE] * 3, NOT_ASSESSABLE),
    ([UNDER_SPECIFIED, HOLDS, UNDER_SPECIFIED], HOLDS),
    ([NOT_GATHERED, HOLDS, FAILS], MIXED),
    ([HOLDS, HOLDS, FAILS], MIXED),
    ([NOT_ASSESSABLE, NOT_GATHERED, NOT_ASSESSABLE], NOT_GATHERED),
]


@pytest.mark.parametrize(("members", "shared"), SHARED)
def test_members_that_say_nothing_decide_nothing(members, shared):
    """The last margin of a replicate may be missing; the family has the verdict of the others."""
    found = judged(HOLDS, of_replicates=members, of_study=[FAILS] * 3)
    found.loc[found["claim"] != found["claim"].iloc[0], "family"] = "Together"
    families = of_families(found)
    assert families.loc["Together", REPLICATES] == shared
    assert families.loc["Together", STUDY] == FAILS
    assert len(families) == 2
