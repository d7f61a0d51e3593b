"""The verdict on the paper in a few sentences, which the README, the end of a run and the report have in common."""

import re

import pandas as pd

from cocal_study.evidence.predicates import DEGENERATE, FAILS, HOLDS, OBSERVED, OPEN, UNOBSERVED
from cocal_study.evidence.verdicts import CONTRADICTS, LANGUAGE_MODEL, PAPER, REPLICATES, STUDY, of_claims, of_families
from cocal_study.exhibits.typesetting.wording import counted, listed, signed

CENTRAL = "beats-postcal"
"""The claim on which the paper rests: each companion of CoCal against the one of PostCal with the same target."""
READ = ["claim", "source", "case", "score", "family", "title", "kind", "verdict", "count", "value", "lower", "upper"]
"""The columns of tables/claims.csv of which the verdict is made."""
_SAID = "that CoCal beats PostCal because it learns from the training's own experience"
_ANSWERS = {HOLDS: "Yes", OBSERVED: "Yes", FAILS: "No", UNOBSERVED: "No"}
_WORDS = {OPEN: "is not separable from chance", DEGENERATE: "meets a rival whose confidence is degenerate"}
_KINDS = {
    (HOLDS, OBSERVED): ("holds", "hold"),
    (FAILS, UNOBSERVED): ("does not", "do not"),
    (OPEN,): ("is not separable", "are not separable"),
}
_LONG = 6
"""Most families that are named."""


def verdict(judged: pd.DataFrame, study: str) -> list[str]:
    """The verdict, one line for each thing that there is to say; the first line answers whether the paper reproduces.

    Args:
        judged: The columns of tables/claims.csv.
        study: Name of the study.
    """
    whole, families = of_claims(judged), of_families(judged)
    rows = whole.set_index(["claim", "source"])
    positive, number = _positive(rows.loc[CENTRAL, REPLICATES]["count"])
    alone = not number
    source = STUDY if alone else REPLICATES
    central = rows.loc[CENTRAL, source]
    judges = f"the {study} study alone" if alone else f"{counted(number, 'replicate')} together"
    found = central["verdict"]
    lines = [
        f"Does it reproduce? {_ANSWERS.get(found, 'Undecided')}: {_SAID} {_WORDS.get(found, _is(found))}, by {judges}.",
        f"Of {len(families)} families of claims that restate one another, {_named(families[source])} by {judges}"
        + ("" if alone else f"; by the {study} study alone {_counts(families[STUDY])}")
        + "; the others are mixed or cannot be judged. Not separable means that the 95 % interval of the difference "
        "holds zero after adjustment.",
    ]
    if pd.notna(central["value"]):
        lead = signed("ece", central["value"])
        ends = " to ".join(signed("ece", central[end]) for end in ("lower", "upper"))
        over = "" if alone else f", and was ahead in {positive} of {number}"
        lines.append(
            "In the least favourable comparison of ECE or AUROC, CoCal "
            f"{'leads' if central['value'] > 0 else 'trails'} PostCal by {lead.lstrip('+−')} "
            f"(margin {lead}, 95 % interval {ends}){over}."
        )
    if LANGUAGE_MODEL in families:
        other = rows.loc[CENTRAL, LANGUAGE_MODEL]
        lead = "" if pd.isna(other["value"]) else f" (margin {signed('ece', other['value'])})"
        found = other["verdict"]
        lines.append(
            f"In a study of a pre-trained language model, the same claim {_WORDS.get(found, _is(found))}{lead}; of the "
            f"families, {_named(families[LANGUAGE_MODEL])}."
        )
    contradicted = [row.title for row in whole.itertuples() if row.source == PAPER and row.verdict == CONTRADICTS]
    if contradicted:
        lines.append("The paper's own numbers contradict: " + "; ".join(f'"{title}"' for title in contradicted) + ".")
    return lines


def _is(verdict: str) -> str:
    """A verdict as a predicate: "holds", "does not hold", "is not assessable"."""
    return verdict if verdict in (HOLDS, FAILS) else f"is {verdict}"


def _positive(count: str) -> tuple[int, int]:
    """In how many replicates the deciding margin is positive, and how many there are."""
    found = re.search(r"positive in (\d+) of (\d+)", count)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _counts(verdicts: pd.Series) -> str:
    return listed([_counted(verdicts.isin(kinds).sum(), said) for kinds, said in _KINDS.items()])


def _named(verdicts: pd.Series) -> str:
    """The number of families with each verdict, and those that are decided by name if they are few."""
    found = []
    for kinds, said in _KINDS.items():
        names = verdicts.index[verdicts.isin(kinds)]
        shown = f" ({'; '.join(names)})" if 0 < len(names) <= _LONG and kinds != (OPEN,) else ""
        found.append(_counted(len(names), said) + shown)
    return listed(found)


def _counted(count: int, said: tuple[str, str]) -> str:
    return f"{count or 'none'} {said[0] if count <= 1 else said[1]}"
