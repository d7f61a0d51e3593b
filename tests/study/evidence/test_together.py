"""Verdicts of the replicates together, with replicates as the unit."""

import re

import numpy as np
import pandas as pd
import pytest

from claims_study import BY_ID, OF_PAPER, SCOPE, Told, study_files, study_frame
from cocal_study.evidence.estimates import Estimate
from cocal_study.evidence.predicates import FAILS, HOLDS, OBSERVED, OPEN
from cocal_study.evidence.sources import StudySource
from cocal_study.evidence.verdicts import (
    COST,
    NOT_GATHERED,
    PAPER,
    REPLICATES,
    STUDY,
    completed,
    joined,
    judge_all,
    of_claims,
)


def gathered(rows: list[tuple]) -> pd.DataFrame:
    """Gathered rows of a study: claim, case, margin, the values and the verdicts of four replicates."""
    columns = ["claim", "case", "margin", *(f"replicate_{n}" for n in (1, 2, 3, 4))]
    found = pd.DataFrame([(*row[:3], *row[3]) for row in rows], columns=columns)
    for n in (1, 2, 3, 4):
        found[f"verdict_{n}"] = [row[4][n - 1] for row in rows]
    return pd.concat([found.assign(source=STUDY, score=""), found.assign(source=PAPER, score="", replicate_1=-9.0)])


READER = Told(lambda one: Estimate(0.5))


def together(name: str, rows: list[tuple]) -> pd.Series:
    found = of_claims(judge_all([BY_ID[name]], READER, READER, gathered(rows)))
    return found[found["source"] == REPLICATES].squeeze()


def test_replicates_are_judged_together_with_replicates_as_the_unit():
    """By hand: 0, 0.03, 0.05 and 0.12 have mean 0.05, standard error 0.02550 and t(3, 0.975) = 3.1824."""
    values, verdicts = (0.0, 0.03, 0.05, 0.12), (OPEN, OPEN, HOLDS, HOLDS)
    name, other = "group-conservative", ("both-scales", 0, "", (9.0,) * 4, (FAILS,) * 4)
    row = together(name, [other, (name, 0, "", values, verdicts), (name, 1, "a", values, verdicts)])
    assert [row["value"], row["lower"], row["upper"]] == pytest.approx([0.05, 0.05 - 0.08114, 0.05 + 0.08114], abs=1e-5)
    assert (row["verdict"], row["p"]) == (OPEN, pytest.approx(0.1446, abs=1e-4))
    assert (row["positive"], row["replicates"], row["zero_excluded"]) == (3, 4, "no"), "zero is no support"
    assert row["detectable"] == pytest.approx(0.08114 + 0.9785 * 0.02550, abs=5e-5), "t(3, 0.8) = 0.9785"
    closer = (0.04, 0.05, 0.05, 0.06)
    assert together(name, [(name, 0, "", closer, verdicts), (name, 1, "a", closer, verdicts)])["verdict"] == HOLDS


def test_the_margins_of_replicates_are_adjusted_and_combined_like_those_of_a_study():
    name, sure, open_ = "coupled-trail-in-accuracy", (0.04, 0.05, 0.05, 0.06), (0.03, 0.06, 0.02, 0.09)
    verdicts = (HOLDS,) * 4
    both = [(name, 0, "", sure, verdicts), (name, 1, "a", sure, verdicts), (name, 1, "b", open_, verdicts)]
    alone = together(name, both[:1] + both[2:])
    assert (alone["verdict"], round(alone["p"], 2)) == (OPEN, 0.05)
    assert together(name, both)["verdict"] == OPEN
    against = tuple(-one for one in sure)
    assert together(name, [*both[:2], (name, 1, "b", against, verdicts)])["verdict"] == FAILS


def test_a_confidence_is_at_chance_if_it_is_in_half_of_the_replicates():
    name, values = "coupled-trail-in-accuracy", (0.04, 0.05, 0.05, 0.06)
    rows = [(name, 0, "", values, (HOLDS,) * 4), (name, 1, "a", values, (HOLDS,) * 4)]
    for said, shown in ((["rlcr", "", "rlcr, dcpo", ""], "RLCR"), (["rlcr", "", "", "dcpo"], "")):
        frame = gathered(rows).assign(**{f"at_chance_{number}": one for number, one in enumerate(said, 1)})
        found = of_claims(judge_all([BY_ID[name]], READER, READER, frame))
        row = found[found["source"] == REPLICATES].squeeze()
        assert row["verdict"] == HOLDS, "by its numbers"
        assert row["reason"] == f"constant or at chance: {shown}" * bool(shown)


def test_claims_of_the_central_comparison_are_judged_by_its_own_replicates_and_by_further_ones_of_the_whole():
    """Where all of them could assess a claim. A number means the same policies in both, and counts once."""
    first, second, values = "group-conservative", "coupled-trail-in-accuracy", (0.04, 0.05, 0.05, 0.06)
    whole = gathered([(name, 1, "a", values, (HOLDS,) * 4) for name in (first, second)])
    against = (first, 1, "a", (-0.04, -0.05, -0.05, -0.06), (FAILS,) * 4)
    central = gathered([against, (second, 1, "a", (np.nan, *values[1:]), ("",) * 4)])
    central = central.rename(columns=lambda name: re.sub(r"_([2-4])$", r"_1\1", name))
    central["replicate_15"], central["verdict_15"] = -0.05, FAILS
    every = joined(whole, central)
    found = of_claims(judge_all([BY_ID[first], BY_ID[second]], READER, READER, every))
    found = found[found["source"] == REPLICATES].set_index("claim")
    assert found["replicates"].to_dict() == {first: 8, second: 4}, "1 to 4 and 12 to 15"
    row = every[(every["claim"] == first) & (every["source"] == STUDY)].squeeze()
    assert row[["replicate_1", "replicate_2"]].tolist() == [-0.04, 0.05], "1 is that of the central comparison"
    assert found["verdict"].to_dict() == {first: OPEN, second: HOLDS}
    assert joined(whole, None) is whole
    assert joined(None, central) is central


def test_further_replicates_count_for_rows_all_of_which_they_have():
    keys = {"claim": ["a", "a", "b"], "case": [1, 2, 1]}
    central = pd.DataFrame(keys | {"replicate_6": [0.1, 0.2, 0.3]})
    whole = pd.DataFrame({"claim": ["b", "a"], "case": [1, 2], "replicate_1": [0.5, 0.6], "replicate_6": [9.0, 9.0]})
    found = completed(central, whole, ["claim", "case"], "claim")
    assert found["replicate_6"].tolist() == [0.1, 0.2, 0.3]
    np.testing.assert_array_equal(found["replicate_1"], [np.nan, np.nan, 0.5])


def test_claims_that_replicates_do_not_have_say_so():
    wanted = [BY_ID[name] for name in ("group-conservative", "transfers-to-facts")]
    values = (0.04, 0.05, 0.05, 0.06)
    frame = gathered([("group-conservative", 1, "a", values, (HOLDS,) * 4)])
    found = of_claims(judge_all(wanted, READER, READER, frame))
    found = found[found["source"] == REPLICATES].set_index("claim")
    assert found["verdict"].to_dict() == {"group-conservative": HOLDS, "transfers-to-facts": NOT_GATHERED}
    assert found.loc["transfers-to-facts", "reason"].startswith("the replicates were gathered without this claim")
    timed = judge_all(
        [BY_ID["selfconsis-costs-more"]],
        OF_PAPER,
        StudySource(SCOPE, **study_files(study_frame())),
        gathered([("selfconsis-costs-more", 0, "", (np.nan,) * 4, (OBSERVED,) * 4)]),
    ).set_index("source")
    assert timed.loc[REPLICATES, "reason"] == "measured times are not gathered"
    assert set(timed["kind"]) == {COST}
