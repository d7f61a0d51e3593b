"""The paper's claims with the verdicts of its own numbers, of this study and of its replicates (beyond the paper)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import pandas as pd

from cocal.config.study import Study
from cocal.evidence.claims import Claim
from cocal.evidence.predicates import FAILS, HOLDS
from cocal.evidence.verdicts import NOT_ASSESSABLE, PAPER, REPLICATES, STUDY
from cocal.exhibits.base.exhibit import TableExhibit
from cocal.exhibits.base.ledger import ClaimsLayout, claims_fields, judged
from cocal.exhibits.typesetting.grid import Block, Cell, Grid, Group, Head, Row
from cocal.exhibits.typesetting.wording import listed, signed
from cocal.metrics.shown import UNDEFINED
from cocal.study.plan import has_methods

Layout = ClaimsLayout
prepare = judged
_PER_FLOAT = 36
"""Most lines of a float, so that it fits its page."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table, where the study has CoCal."""
    if has_methods(study, "cocal-binary"):
        yield TableExhibit(
            title="Which claims of the paper hold",
            chapter="Claims",
            position=1,
            caption="Every claim of the paper that can be checked, judged by one predicate over three sources: the "
            "numbers that the paper publishes, this study, and replicates of this study with other seeds of the "
            "policies. A claim is not separable where the 95 % interval of the paired difference holds zero. Stated "
            "values are judged in the paper study only. The page also gives the words of the paper, and why a claim "
            "has no verdict.",
            **claims_fields(study),
        )


def grid(numbers: pd.DataFrame, layout: Layout, *, ledger: Sequence[Claim], **_: object) -> Grid:
    """Set the table; the page adds the words of the paper."""
    by_place = {(row.claim, row.source): row for row in numbers.itertuples()}
    return Grid(
        title="Which claims of the paper hold",
        caption=f"The {len(ledger)} claims of the paper that can be checked, judged by the paper's own numbers and by "
        f"this study. {layout.caption} By the paper's numbers, {_summary(numbers, PAPER)}; by this study, "
        f"{_summary(numbers, STUDY)}. The margin is the number that decides, positive where the claim is true, with "
        "its 95 % interval over resamples of the questions; of several, it is the least favourable. A claim is not "
        "separable where the interval holds zero. Claims about Qwen3-8B and Qwen3-14B are judged on the study's first "
        "and second backbone.",
        label="claims",
        blocks=tuple(_block(part, by_place) for part in _parts(ledger)),
        gap="2.6pt",
        size="footnotesize",
        apart=True,
        page_blocks=(_block(ledger, by_place),),
        details=(_words(ledger, by_place),),
    )


def margin_text(row: object) -> str:
    """The deciding margin of a verdict with its interval, "" if it has none."""
    if pd.isna(row.value):
        return ""
    texts = [signed("ece", number) for number in (row.value, row.lower, row.upper)]
    return texts[0] if row.lower == row.upper else f"{texts[0]} [{texts[1]}, {texts[2]}]"


def _summary(numbers: pd.DataFrame, source: str) -> str:
    """The number of claims with each verdict, in words."""
    verdicts = Counter(numbers.loc[numbers["source"] == source, "verdict"])
    said = sorted(verdicts.items(), key=lambda one: (one[0] != HOLDS, one[0] != FAILS, one[0]))
    words = {HOLDS: "hold", FAILS: "do not hold"}
    return listed([f"{count} {words.get(verdict, f'are {verdict}')}" for verdict, count in said])


def _parts(ledger: Sequence[Claim]) -> list[list[Claim]]:
    """The claims of each float: whole sections as long as they fit."""
    parts: list[list[Claim]] = [[]]
    for _, section in groupby(ledger, lambda claim: claim.section):
        found = list(section)
        if parts[-1] and len(parts[-1]) + len(found) > _PER_FLOAT:
            parts.append([])
        parts[-1] += found
    return parts


def _block(ledger: Sequence[Claim], by_place: Mapping[tuple[str, str], object]) -> Block:
    def row(claim: Claim) -> Row:
        paper, study, replicates = (by_place[claim.id, source] for source in (PAPER, STUDY, REPLICATES))
        of_replicates = UNDEFINED if replicates.verdict in (NOT_ASSESSABLE, study.verdict) else replicates.verdict
        cells = (_verdict(paper.verdict), _verdict(study.verdict), Cell(margin_text(study) or UNDEFINED))
        return Row(claim.title, (*cells, Cell(of_replicates)))

    return Block(
        corner="Claim",
        heads=(tuple(map(Head, ("Paper's numbers", "This study", "Margin", "Replicates"))),),
        groups=tuple(
            Group(tuple(map(row, claims)), section) for section, claims in groupby(ledger, lambda claim: claim.section)
        ),
        width=1,
    )


def _verdict(verdict: str) -> Cell:
    return Cell(verdict, "best" if verdict == FAILS else None)


def _words(ledger: Sequence[Claim], by_place: Mapping[tuple[str, str], object]) -> Block:
    """The words of the paper, how they are read, and why a source gives no verdict."""

    def row(claim: Claim) -> Row:
        reasons = {source: by_place[claim.id, source].reason for source in (PAPER, STUDY)}
        said = [f"{source}: {reason}" for source, reason in reasons.items() if reason]
        if len(set(reasons.values())) == 1:
            said = [next(iter(reasons.values()))] * bool(said)
        texts = (claim.quotation.strip(), claim.kind, claim.note, "; ".join(said))
        return Row(claim.title, tuple(map(Cell, texts)))

    return Block(
        corner="Claim",
        heads=(tuple(map(Head, ("Words of the paper", "Kind", "How they are read", "Why there is no verdict"))),),
        groups=(Group(tuple(map(row, ledger))),),
        align="l",
    )
