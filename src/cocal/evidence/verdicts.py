"""Verdicts on the paper's claims by every source, and how many replicates agree."""

from collections.abc import Sequence
from itertools import product

import pandas as pd

from cocal.evidence.claims import OF_THE_PAPER, Claim
from cocal.evidence.predicates import Case, Margin, NotAssessableError, Reader, undefined
from cocal.evidence.sources import MEASURED

UNDER_SPECIFIED, NOT_ASSESSABLE = "under-specified", "not assessable"
PAPER, STUDY, REPLICATES = "paper", "study", "replicates"
"""The sources: the paper's published numbers, this study, and its replicates with other seeds of the policies."""
COLUMNS = ("claim", "source", "value", "lower", "upper", "verdict", "reason", "title", "kind", "section", "quotation")
_NOTHING = Margin(float("nan"), float("nan"), float("nan"))


def cases_of(claim: Claim) -> list[Case]:
    """Every combination of what the scope of a claim lists."""
    scope = claim.scope
    sources = scope.learnt_from or (None,)
    return [
        Case(backbone, dataset, step, source, scope.comparison)
        for backbone, dataset, step, source in product(scope.backbones, scope.datasets, scope.steps, sources)
        if not (scope.off_diagonal and step == source)
    ]


def is_measured(claim: Claim) -> bool:
    """True if a claim is about measured times, whose numbers differ from run to run."""
    names = (getattr(claim.predicate, name, "") for name in ("metric", "than_metric"))
    return any(name in MEASURED for name in names)


def judge(claim: Claim, reader: Reader) -> tuple[Margin, str, str]:
    """The deciding margin of a claim, positive where the claim is true, its verdict, and the reason if it has none.

    Args:
        claim: The claim.
        reader: What the source tells.
    """
    if claim.predicate is None:
        return _NOTHING, UNDER_SPECIFIED, claim.reason
    try:
        cases = list(claim.predicate.cases(cases_of(claim), reader))
    except NotAssessableError as error:
        return _NOTHING, NOT_ASSESSABLE, str(error)
    if any(undefined(margin) for case in cases for margin in case):
        return _NOTHING, NOT_ASSESSABLE, "a number is undefined on all resamples"
    return (*claim.predicate.decide(cases), "")


def judge_all(
    claims: Sequence[Claim],
    paper: Reader,
    study: Reader,
    of_paper: bool,
    replicates: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Judge every claim by every source.

    Args:
        claims: The ledger.
        paper: The paper's published numbers.
        study: The study.
        of_paper: Whether the study is the paper's, so that values and ranges can be compared.
        replicates: What `cocal spread` has gathered of tables/claims.csv, if replicates were run.

    Returns:
        A row for each claim and source, with the columns `COLUMNS`. `value`, `lower` and `upper` are the deciding
        margin, positive where the claim is true, in the unit of its metric (shares for accuracies); of replicates they
        are mean, least and greatest. They are NaN without a verdict by numbers, and of times that the study measured,
        which differ from run to run.
    """
    rows = []
    for claim in claims:
        found = {PAPER: judge(claim, paper), STUDY: _of_study(claim, study, of_paper)}
        found[REPLICATES] = _of_replicates(claim, replicates)
        said = (claim.title, claim.kind, claim.section, claim.quotation.strip())
        rows += [(claim.id, source, *margin, *verdict, *said) for source, (margin, *verdict) in found.items()]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _of_study(claim: Claim, study: Reader, of_paper: bool) -> tuple[Margin, str, str]:
    if claim.predicate is not None and claim.kind in OF_THE_PAPER and not of_paper:
        return _NOTHING, NOT_ASSESSABLE, "the number is of the paper's models: only the paper study can judge it"
    margin, verdict, reason = judge(claim, study)
    return (_NOTHING if is_measured(claim) else margin), verdict, reason


def _of_replicates(claim: Claim, replicates: pd.DataFrame | None) -> tuple[Margin, str, str]:
    if claim.predicate is None:
        return _NOTHING, UNDER_SPECIFIED, claim.reason
    if replicates is None:
        return _NOTHING, NOT_ASSESSABLE, "no replicates of the study have been gathered"
    rows = replicates[(replicates["claim"] == claim.id) & (replicates["source"] == STUDY)]
    if rows.empty:
        return _NOTHING, NOT_ASSESSABLE, "the replicates were gathered without this claim: run `cocal spread` anew"
    values = rows.filter(regex=r"^replicate_\d+$").iloc[0].astype(float)
    if values.isna().any():
        what = "measured times are not gathered" if is_measured(claim) else "not every replicate could assess it"
        return _NOTHING, NOT_ASSESSABLE, what
    agree = int((values > 0).sum())
    return Margin(values.mean(), values.min(), values.max()), f"in {agree} of {len(values)}", ""
