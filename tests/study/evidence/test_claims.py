"""The ledger of the paper's claims: its words, what each claim reads, and the verdicts of the published numbers."""

import hashlib
import shutil
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from claims_study import BY_ID, LEDGER, NUMBERS, OF_PAPER, Told
from cocal.errors import ConfigError
from cocal_study.evidence.claims import read_claims
from cocal_study.evidence.estimates import Estimate
from cocal_study.evidence.predicates import OBSERVED, UNOBSERVED, Quantity
from cocal_study.evidence.published import read_published
from cocal_study.evidence.sources import PublishedSource
from cocal_study.evidence.verdicts import NOT_ASSESSABLE, UNDER_SPECIFIED, cases_of, judge

PAPER_SAYS_NO = {"declining-accuracy", "cocal-stable"}
"""The claims that the paper's own numbers contradict."""
IN_FIGURES = {
    *("errors-become-scarce", "cocal-spreads", "seven-of-eight-budgets", "transfer-to-dcpo", "transfer-to-rlcr-early"),
    *("transfer-to-rlcr-late", "middle-to-late-layers", "more-errors-in-training", "generally-lower-test-confidence"),
    *("dcpo-concentrated-high", "stated-high-everywhere", "rlcr-extremes-everywhere", "cocal-more-bins"),
    "useful-on-other-policies",
}
"""The claims whose numbers no table of the paper has."""


EXPECTED = pd.read_csv(Path(__file__).with_name("claims_scopes.csv"), index_col="claim", dtype=str)
"""By claim: methods and metrics in the order in which they are read, the better first; backbones, comparison, sets,
and the steps of the policies with those that companions learnt from; how many cases have to hold."""


@cache
def of_paper(folder: Path = NUMBERS) -> dict[str, str]:
    reader = PublishedSource(read_published(folder))
    return {claim.id: judge(claim, reader)[1] for claim in read_claims(folder / "claims.yaml")}


QUOTED = "f5fea51dc2576b9b"
"""SHA-256 of the quotations with their sections, which were compared with the paper's TeX source."""


def test_every_quotation_is_that_which_was_compared_with_the_source():
    """Each stands in its section there. After a change, compare it once more, and renew the digest."""
    assert len({claim.id for claim in LEDGER}) == len(LEDGER)
    said = "\n".join(f"{claim.section}: {' '.join(claim.quotation.split())}" for claim in LEDGER)
    assert hashlib.sha256(said.encode()).hexdigest()[:16] == QUOTED


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("predicate: better,", "predicate: nicer,", "nicer"),
        ("    reason: no quality", "    note: no quality", "a predicate, or a reason"),
    ],
)
def test_a_wrong_ledger_is_refused(tmp_path, old, new, message):
    path = tmp_path / "claims.yaml"
    text = (NUMBERS / "claims.yaml").read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_claims(path)


def asked(claim) -> tuple[list[Quantity], str]:
    """The quantities that a claim reads, and in how many of its cases it has to hold."""
    read: list[Quantity] = []
    reader = Told(lambda one: read.append(one) or Estimate(0.5))
    count = len(list(claim.predicate.cases(cases_of(claim), reader)))
    needed = claim.predicate.needed(count)
    return read, f"{'all' if needed == count else needed} of {count}"


@pytest.mark.parametrize("claim", [claim for claim in LEDGER if claim.predicate], ids=lambda claim: claim.id)
def test_a_claim_reads_what_its_words_name(claim):
    read, cases = asked(claim)

    def all_of(name):
        return " ".join(dict.fromkeys(map(name, read)))

    assert EXPECTED.loc[claim.id].to_dict() == {
        "methods": all_of(lambda one: one.method),
        "metrics": all_of(lambda one: one.metric),
        "backbones": all_of(lambda one: one.case.backbone),
        "comparison": all_of(lambda one: one.case.comparison),
        "sets": all_of(lambda one: one.case.dataset.removeprefix("macro-")),
        "steps": all_of(lambda one: "<".join(map(str, filter(None, (one.case.step, one.case.learnt_from))))),
        "cases": cases,
    }


def test_the_papers_own_numbers_contradict_two_claims():
    found = of_paper()
    assert {name for name, verdict in found.items() if verdict == UNOBSERVED} == PAPER_SAYS_NO
    cannot_fail = {claim.id for claim in LEDGER if claim.cannot_fail}
    assert {name for name, verdict in found.items() if verdict == NOT_ASSESSABLE} == IN_FIGURES | cannot_fail
    assert {name for name, verdict in found.items() if verdict == UNDER_SPECIFIED} == {
        claim.id for claim in LEDGER if claim.reason
    }
    assert set(found.values()) == {OBSERVED, UNOBSERVED, NOT_ASSESSABLE, UNDER_SPECIFIED}, "no number has an interval"


@pytest.mark.parametrize(
    ("file", "old", "new", "claim", "verdict"),
    [
        ("main.csv", "0.644,**0.096**", "0.644,**0.106**", "lowest-ece-of-concurrent", UNOBSERVED),
        ("ood.csv", "31.1,0.353,**0.104**", "31.1,0.353,**0.204**", "group-ece-on-facts", UNOBSERVED),
        ("cost.csv", "14.22", "0.001", "sampling-outweighs-training", UNOBSERVED),
        ("token_aggregation.csv", "**0.900**", "0.890", "last-token-best-8b", UNOBSERVED),
    ],
)
def test_a_planted_wrong_number_changes_a_verdict(tmp_path, file, old, new, claim, verdict):
    folder = shutil.copytree(NUMBERS, tmp_path / "paper")
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    assert of_paper()[claim] == OBSERVED
    assert of_paper(folder)[claim] == verdict


def test_margins_are_those_of_the_tables():
    expected = {
        "coupled-trail-in-accuracy": 0.638 - 0.588,
        "both-scales": 0.090 - 0.082,
        "widens-under-transfer": (0.726 - 0.666) - (0.896 - 0.857),
        "declining-accuracy": 0.577 - 0.622,
        "selfconsis-comparable-auroc": 0.02 - (0.904 - 0.896),
        "often-above-accuracy": 0.714 - 0.589 + 0.02,
        "generally-beats-postcal": 0.896 - 0.872,
        "cocal-stable": 0.022 - 0.04,
        "learns-its-task": 0.662 - 0.526,
        "pre-generation-informative": 0.65 - 0.5,
    }
    for name, value in expected.items():
        assert judge(BY_ID[name], OF_PAPER)[0].value == pytest.approx(value), name
