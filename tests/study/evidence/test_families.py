"""Families of claims: the verdict that the members share, whichever of them say nothing."""

import pandas as pd
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

SHARED = [
    ([HOLDS, NOT_GATHERED, HOLDS], HOLDS),
    ([UNDER_SPECIFIED, FAILS, NOT_ASSESSABLE], FAILS),
    ([NOT_GATHERED] * 3, NOT_GATHERED),
    ([NOT_GATHERED, HOLDS, FAILS], MIXED),
    ([NOT_ASSESSABLE, NOT_GATHERED, NOT_ASSESSABLE], NOT_GATHERED),
]


@pytest.mark.parametrize(("members", "shared"), SHARED)
def test_members_that_say_nothing_decide_nothing(members, shared):
    """The last margin of a replicate may be missing; the family has the verdict of the others."""
    claims = {"Alone": ("", HOLDS), **{f"c{k}": ("Together", verdict) for k, verdict in enumerate(members)}}
    rows = [
        {"title": title, "family": family, "source": source, "verdict": verdict}
        for title, (family, together) in claims.items()
        for source, verdict in ((STUDY, FAILS), (REPLICATES, together))
    ]
    families = of_families(pd.DataFrame(rows).assign(case=0, score="", kind="direction"))
    assert families.loc["Together", REPLICATES] == shared
    assert families.loc["Together", STUDY] == FAILS
    assert len(families) == 2
