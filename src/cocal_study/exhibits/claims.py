"""The paper's claims with the verdicts of its own numbers, of this study and of its replicates (beyond the paper)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from cocal.metrics.shown import UNDEFINED
from cocal_study.config.study import Study
from cocal_study.cubes.better import HEADS
from cocal_study.evidence.claims import Claim
from cocal_study.evidence.predicates import FAILS, UNOBSERVED
from cocal_study.evidence.verdicts import (
    CONTRADICTS,
    LANGUAGE_MODEL,
    NOT_ASSESSABLE,
    PAPER,
    REPLICATES,
    SCORES,
    STUDY,
    is_measured,
    of_claims,
    of_families,
)
from cocal_study.exhibits.base.exhibit import TableExhibit
from cocal_study.exhibits.base.ledger import ClaimsLayout, claims_inputs, claims_layout, judged
from cocal_study.exhibits.typesetting.grid import Block, Cell, Grid, Line
from cocal_study.exhibits.typesetting.wording import DEGENERATE, SMOLLM2, listed, signed
from cocal_study.planning.plan import has_methods

Layout = ClaimsLayout
prepare = judged
ByPlace = Mapping[tuple[str, str, str], Any]
"""Verdicts by claim, source and score."""
Claims = tuple[str, Sequence[Claim]]
"""The name of a family, and its claims."""
_PER_FLOAT = 36
"""Largest number of lines of a float that fits its page."""
_SHORT = (
    "A claim holds where all margins are separably positive at 5 %, and does not hold where one is separably negative "
    "after Holm's adjustment, over questions and companion seeds in a study and with Student's t over replicates; "
    "numbers without an interval are observed or not, and the paper's are stated. Excludes: what the interval of the "
    f"deciding margin leaves out, zero or the paper's margin. {DEGENERATE}: a confidence is constant or at chance."
)
_COSTS = "Costs, which are no evidence on calibration"


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    if has_methods(study, "cocal-binary"):
        inputs = claims_inputs(study)
        if study.reports.language_model:
            inputs["language_model"] = [f"{study.reports.language_model}/tables/claims.csv"]
        yield TableExhibit(
            title="Which claims of the paper hold",
            chapter="Claims",
            position=1,
            caption="The claims of the paper, each judged by one predicate, if it says enough, over the numbers that "
            "the paper publishes, this study, its replicates and, where it was gathered, a study of a pre-trained "
            "language model (`config/laptop.yaml`); the page also gives every margin, the words of the paper, how "
            "they are read, and why a claim has no verdict.",
            layout=claims_layout(study),
            inputs=inputs,
        )


def grid(numbers: pd.DataFrame, layout: Layout, *, ledger: Sequence[Claim], **_: object) -> Grid:
    """Set the table; the page adds the words of the paper."""
    by_place = {
        (row.claim, row.source, score): row for score in SCORES for row in of_claims(numbers, score).itertuples()
    }
    families = of_families(numbers)
    costs = sum(map(is_measured, ledger))
    groups = _families(ledger)
    model = LANGUAGE_MODEL in families
    return Grid(
        title="Which claims of the paper hold",
        caption=f"{len(ledger)} claims of the paper, {costs} of them about costs. The others "
        f"form {len(families)} families, within each of which claims restate one another. {layout.caption} Verdicts "
        f"of the families, by the replicates together: {summary(families[REPLICATES])}; by this study alone: "
        f"{summary(families[STUDY])}. In a mixed family some claims have other verdicts than others. {_SHORT} "
        "The margin is the one that decides, positive where the claim is true, with its own 95 % interval; 0.01 is one "
        "point of an accuracy. The page also judges claims about ECE with a proper score in its place. < marks "
        f"published differences below 0.01. Claims about Qwen3-8B and Qwen3-14B are judged on {listed(layout.labels)}.",
        blocks=tuple(_block(part, by_place, model) for part in _parts(groups)),
        gap="2.6pt",
        size="footnotesize",
        apart=True,
        page_blocks=(_block(groups, by_place, model, SCORES[1:]),),
        details=(_margins(numbers, ledger), _words(ledger, by_place)),
    )


def margin_text(row: Any) -> str:
    """The deciding margin of a verdict with its interval, "" if it has none."""
    if pd.isna(row.value):
        return ""
    texts = [signed("ece", number) for number in (row.value, row.lower, row.upper)]
    return texts[0] if row.lower == row.upper else f"{texts[0]} [{texts[1]}, {texts[2]}]"


def summary(verdicts: pd.Series) -> str:
    """How often verdicts occur, in words, the most frequent ones first."""
    counts = sorted(Counter(verdicts).items(), key=lambda pair: (pair[0] == NOT_ASSESSABLE, -pair[1], pair[0]))
    return listed([f'{count} "{verdict}"' for verdict, count in counts])


def _families(ledger: Sequence[Claim]) -> list[Claims]:
    """The claims by families in the order of their first members, then single claims, and costs."""
    last = ("Claims that nothing restates", _COSTS)
    groups: dict[str, list[Claim]] = {}
    for claim in ledger:
        groups.setdefault(_COSTS if is_measured(claim) else claim.family or last[0], []).append(claim)
    return sorted(groups.items(), key=lambda group: last.index(group[0]) if group[0] in last else -1)


def _parts(groups: Sequence[Claims]) -> list[list[Claims]]:
    """The groups of each float: whole ones as long as they fit, and longer ones in pieces."""
    parts: list[list[Claims]] = [[]]
    for name, claims in groups:
        for start in range(0, len(claims), _PER_FLOAT - 2):
            some = claims[start : start + _PER_FLOAT - 2]
            if parts[-1] and sum(1 + len(piece) for _, piece in parts[-1]) + 1 + len(some) > _PER_FLOAT:
                parts.append([])
            parts[-1].append((name, some))
    return parts


def _block(groups: Sequence[Claims], by_place: ByPlace, model: bool, scores: Sequence[str] = ()) -> Block:
    """Verdicts of each claim, with those of a study of a language model if there is one, and those of this study with
    each of the proper scores."""

    def row(claim: Claim) -> Line:
        paper, study, replicates = (by_place[claim.id, source, ""] for source in (PAPER, STUDY, REPLICATES))
        close = " <" if paper.reason and paper.verdict != NOT_ASSESSABLE else ""
        scored = [by_place.get((claim.id, STUDY, score)) for score in scores]
        return claim.title, (
            _verdict(paper.verdict, close),
            _verdict(replicates.verdict, chance="at chance" in replicates.reason),
            _excluded(replicates),
            _verdict(study.verdict, chance="at chance" in study.reason),
            margin_text(study) or UNDEFINED,
            _excluded(study),
            *([_verdict(by_place[claim.id, LANGUAGE_MODEL, ""].verdict)] if model else []),
            *(_verdict(verdict.verdict) if verdict else UNDEFINED for verdict in scored),
        )

    heads = ["Paper's numbers", "Replicates together", "They exclude", "This study", "Margin", "Excludes"]
    heads += [SMOLLM2] * model + [f"By {HEADS[score].strip('↓')}" for score in scores]
    return Block("Claim", [heads], [(name, list(map(row, claims))) for name, claims in groups], width=1)


def _verdict(verdict: str, mark: str = "", chance: bool = False) -> Cell:
    shown = UNDEFINED if verdict == NOT_ASSESSABLE else f"{verdict}{mark}"
    return Cell(shown, "best" if verdict in (FAILS, UNOBSERVED, CONTRADICTS) else None, degenerate=chance)


def _excluded(row: Any) -> str:
    """What lies outside of the interval of a margin."""
    excluded = [name for name, said in (("zero", row.zero_excluded), ("paper", row.paper_excluded)) if said == "yes"]
    return ", ".join(excluded) or ("neither" if row.paper_excluded else "nothing" if row.zero_excluded else UNDEFINED)


def _margins(numbers: pd.DataFrame, ledger: Sequence[Claim]) -> Block:
    whole = numbers[(numbers["case"] > 0) & (numbers["score"] == "")]
    titles = {claim.id: claim.title for claim in ledger}
    sources = [source for source in (STUDY, REPLICATES) if source in set(whole["source"])]

    def row(label: str, part: pd.DataFrame) -> Line:
        cells = []
        for source in sources:
            margin = next(part[part["source"] == source].itertuples(), None)
            cells += [margin_text(margin) or UNDEFINED, _excluded(margin)] if margin else [UNDEFINED] * 2
            if source == REPLICATES:
                cells.append(f"{margin.detectable:.3f}" if margin else UNDEFINED)
        return label, cells

    groups = [
        (titles[claim], [row(str(label), part) for label, part in rows.groupby("margin", sort=False)])
        for claim, rows in whole.groupby("claim", sort=False)
    ]
    heads = [f"{title}{source}" for source in sources for title in ("Margin, ", "Excludes, ")]
    return Block("Margin", [heads + ["Detectable"] * (REPLICATES in sources)], groups, align="l")


def _words(ledger: Sequence[Claim], by_place: ByPlace) -> Block:
    """The words of the paper, how they are read, and what each source adds to its verdict."""

    def row(claim: Claim) -> Line:
        verdicts = {source: by_place[claim.id, source, ""] for source in (PAPER, STUDY, REPLICATES)}
        reasons = {source: verdict.reason for source, verdict in verdicts.items()}
        said = [f"{source}: {reason}" for source, reason in reasons.items() if reason]
        if len(set(reasons.values())) == 1:
            said = [next(iter(reasons.values()))] * bool(said)
        read = ". ".join(filter(None, (verdicts[PAPER].combined, claim.note)))
        joint = verdicts[REPLICATES]
        positive = "" if pd.isna(joint.positive) else f"positive in {joint.positive:.0f} of {joint.replicates:.0f}"
        return claim.title, (claim.section, claim.quotation.strip(), claim.kind, read, positive, "; ".join(said))

    heads = ("Section", "Words of the paper", "Kind", "How they are read", "Replicates", "What else is to say")
    return Block("Claim", [heads], [("", list(map(row, ledger)))], align="l")
