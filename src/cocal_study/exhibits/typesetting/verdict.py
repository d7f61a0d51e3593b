"""The verdict on the paper in a few sentences, which the README, the end of a run and the report have in common."""

import pandas as pd

from cocal_study.config.methods import METHODS
from cocal_study.evidence.predicates import FAILS, HOLDS, OBSERVED, OPEN, UNOBSERVED
from cocal_study.evidence.verdicts import (
    CONTRADICTS,
    COST,
    LANGUAGE_MODEL,
    PAPER,
    REPLICATES,
    STUDY,
    of_claims,
    of_families,
    unit_of,
)
from cocal_study.exhibits.typesetting.wording import counted, listed, signed

CENTRAL = "beats-postcal"
"""The claim on which the paper rests: each companion of CoCal against the one of PostCal with the same target."""
READ = ["claim", "source", "case", "score", "margin", "family", "title", "kind", "verdict", "positive", "replicates"]
READ += ["value", "lower", "upper", "at_chance", "detectable", "zero_excluded", "published", "paper_excluded"]
"""The columns of tables/claims.csv of which the verdict is made."""
_SAID = "that CoCal beats PostCal because it learns from the training's own experience"
_ANSWERS = {HOLDS: "Yes", OBSERVED: "Yes", FAILS: "No", UNOBSERVED: "No"}
_WORDS = {OPEN: "is not separable from chance"}
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
    margins = judged[(judged["claim"] == CENTRAL) & (judged["case"] > 0) & (judged["score"] == "")]
    together = margins[margins["source"] == REPLICATES]
    alone = together.empty
    source = STUDY if alone else REPLICATES
    number = 0 if alone else int(together["replicates"].iloc[0])
    judges = f"the {study} study alone" if alone else f"{counted(number, 'replicate')} together"
    found = rows.loc[CENTRAL, source]["verdict"]
    lines = [
        f"Does it reproduce? {_ANSWERS.get(found, 'Undecided')}: {_SAID} {_WORDS.get(found, _is(found))}, by {judges}.",
        *map(_margin, margins[margins["source"] == source].itertuples()),
    ]
    if not alone:
        lines.append(f"{_detectable(together)} in four of five cases, if it is there.")
    lines.append(
        f"Of {len(families)} families of claims that restate one another, {_named(families[source])} by {judges}"
        + ("" if alone else f"; by the {study} study alone {_counts(families[STUDY])}")
        + "; the others are mixed or cannot be judged. Not separable means that the 95 % interval of the difference "
        "holds zero."
    )
    costs = whole[(whole["kind"] == COST) & (whole["source"] == STUDY)]["verdict"]
    if costs.isin([HOLDS, OBSERVED, FAILS, UNOBSERVED]).any():
        lines.append(f"Claims about costs are no evidence on calibration, and counted apart: {_counts(costs)}.")
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


def _margin(row: object) -> str:
    """One margin of the central claim with what its interval excludes."""
    methods, metric = row.margin.split(", ")[:2]
    ours, rival = (METHODS[name].label for name in methods.split(" and "))
    value, lower, upper = (signed(metric, number) for number in (row.value, row.lower, row.upper))
    text = f"{ours} over {rival}, {metric.upper()}: margin {value} (95 % {lower} to {upper})"
    if pd.notna(row.positive):
        text += f", positive in {row.positive:.0f} of {row.replicates:.0f}"
    text += f"; zero is {'' if row.zero_excluded == 'yes' else 'not '}excluded"
    if row.paper_excluded:
        paper = signed(metric, row.published)
        text += f", the paper's margin, {paper}, is {'' if row.paper_excluded == 'yes' else 'not '}excluded"
    chance = " and ".join(METHODS[name].label for name in row.at_chance.split(", ") if name)
    return f"{text}{f'; constant or at chance: {chance}' if chance else ''}."


def _detectable(margins: pd.DataFrame) -> str:
    """What so many replicates can find: the greatest detectable margin of each metric."""
    greatest = margins.groupby(margins["margin"].map(unit_of), sort=False)["detectable"].max()
    said = listed([f"{value:.3f} in {metric.upper()}" for metric, value in greatest.items()])
    number = counted(int(margins["replicates"].iloc[0]), "replicate")
    return f"{number[0].upper()}{number[1:]} find a margin of {said}"


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
