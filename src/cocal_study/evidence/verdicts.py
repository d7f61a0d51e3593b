"""Verdicts on the paper's claims by its own numbers, by a study, and by the replicates of the study together."""

import math
import re
from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd

from cocal_study.evidence.claims import Claim
from cocal_study.evidence.predicates import (
    DEGENERATE,
    HOLDS,
    OBSERVED,
    UNOBSERVED,
    Case,
    Margin,
    NotAssessableError,
    Reader,
)
from cocal_study.evidence.sources import MEASURED

UNDER_SPECIFIED, NOT_ASSESSABLE, NOT_GATHERED = "under-specified", "not assessable", "not gathered"
AGREES, CONTRADICTS = "stated: agrees", "stated: contradicts"
"""Verdicts of the paper's own numbers, which have no intervals."""
_STATED = {OBSERVED: AGREES, UNOBSERVED: CONTRADICTS}
MIXED = "mixed"
"""The verdict of a family whose members have several."""
PAPER, STUDY, REPLICATES, LANGUAGE_MODEL = "paper", "study", "replicates", "language model"
"""The sources: the paper's published numbers, this study, its replicates with other seeds of the policies, and a study
of a pre-trained language model."""
SCORES = ("", "brier", "log_loss")
"""The forms in which a claim about ECE is judged: as it stands, and with a proper score in its place."""
UNITS = ("ece", "auroc", "share")
"""Units of margins: accuracies, mean confidences and shares of responses or bins are shares."""
CLOSE = 0.01
"""Published differences below this are marked."""
_NUMBERS = ("claim", "source", "score", "case", "margin", "value", "lower", "upper", "p", "verdict", "count", "reason")
COLUMNS = (*_NUMBERS, "title", "family", "kind", "combined", "section", "quotation")
_NOTHING = Margin(*[math.nan] * 3)
_Judged = tuple[Margin, str, str, list[tuple[int, Margin, str]]]
"""The deciding margin, the verdict, the reason where there is none, and every margin with its case and its verdict."""


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


def judge(claim: Claim, reader: Reader) -> _Judged:
    """The deciding margin of a claim, positive where the claim is true, its verdict, what there is to say about it, and
    all of its margins with the numbers of their cases and their own verdicts.

    Args:
        claim: The claim.
        reader: What the source tells.
    """
    if claim.predicate is None:
        verdict = UNDER_SPECIFIED if claim.reason else NOT_ASSESSABLE
        return _NOTHING, verdict, claim.reason or claim.cannot_fail, []
    try:
        cases = list(claim.predicate.cases(cases_of(claim), reader))
    except NotAssessableError as error:
        return _NOTHING, NOT_ASSESSABLE, str(error), []
    return _decided(claim, cases, reader.level)


def _decided(claim: Claim, cases: Sequence[Sequence[Margin]], level: float) -> _Judged:
    if any(math.isnan(number) for case in cases for margin in case for number in margin[:2]):
        return _NOTHING, NOT_ASSESSABLE, "a number is undefined on all resamples", []
    verdicts = claim.predicate.verdicts(cases, level)
    every = [
        (number, *one)
        for number, (case, said) in enumerate(zip(cases, verdicts, strict=True), 1)
        for one in zip(case, said, strict=True)
    ]
    rivals = [margin.label.partition(",")[0] for _, margin, _ in every if margin.degenerate]
    reason = f"set aside, since a confidence is degenerate: {'; '.join(dict.fromkeys(rivals))}" if rivals else ""
    return (*claim.predicate.decide(cases, level), reason, every)


def judge_all(
    claims: Sequence[Claim],
    paper: Reader,
    study: Reader,
    replicates: pd.DataFrame | None = None,
    language_model: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Judge every claim by every source.

    Args:
        claims: The ledger.
        paper: The paper's published numbers.
        study: The study.
        replicates: What `cocal spread` has gathered of tables/claims.csv, if replicates were run.
        language_model: The result of this function in a study of a language model, whose own verdicts are shown.

    Returns:
        The columns `COLUMNS`, with a row for each claim and source, whose case is 0 and whose margin is "", and one for
        each margin of the study, without the paper's words, by which replicates are judged together. Claims that
        compare ECEs have the same again with each proper score. `value`, `lower` and `upper` are the deciding margin,
        positive where the claim is true, in the unit of its metric (shares for accuracies), with its own interval of
        95 %; `p` is not adjusted. Of replicates they are the mean and the interval of Student's t. They are NaN without
        a verdict by numbers, and of times that the study measured, which differ from run to run.
    """
    rows = []
    for claim in claims:
        said = (claim.title, claim.family, claim.kind, _combined(claim), claim.section, claim.quotation.strip())
        for score in SCORES:
            scored = claim.scored_by(score) if score else claim
            if scored is None:
                continue
            found = {} if score else {PAPER: (*_of_paper(claim, paper), "")}
            margin, verdict, reason, every = _of_study(scored, study)
            found[STUDY] = (margin, verdict, reason, "")
            found[REPLICATES] = (_NOTHING, verdict, reason, "")
            if verdict not in (NOT_ASSESSABLE, UNDER_SPECIFIED):
                found[REPLICATES] = _of_replicates(scored, score, replicates, study.level)
            if language_model is not None:
                found[LANGUAGE_MODEL] = _of_other_study(claim.id, score, language_model)
            for source, (deciding, said_so, why, count) in found.items():
                place = (claim.id, source, score, 0, "")
                rows.append((*place, *deciding[:4], said_so, count, why, *said))
            if not is_measured(claim):
                rows += [
                    (claim.id, STUDY, score, number, one.label, *one[:4], own, "", "", *said[:3], "", "", "")
                    for number, one, own in every
                ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def of_claims(judged: pd.DataFrame, score: str = "") -> pd.DataFrame:
    """The rows of whole claims, without those of their margins; with a proper score in the place of ECE, if named."""
    return judged[(judged["case"] == 0) & (judged["score"] == score)]


def of_families(judged: pd.DataFrame) -> pd.DataFrame:
    """The verdicts of the families of claims that a study can judge, a row each and a column for each source.

    A family has the verdict that all of its members share, apart from those that are not assessable, and is otherwise
    mixed.
    """
    whole = of_claims(judged)
    family = whole["family"].where(whole["family"] != "", whole["title"])

    def shared(verdicts: pd.Series) -> str:
        for silent in (NOT_ASSESSABLE, UNDER_SPECIFIED, NOT_GATHERED):
            if not (verdicts == silent).all():
                verdicts = verdicts[verdicts != silent]
        return verdicts.iloc[0] if verdicts.nunique() == 1 else MIXED

    return whole.groupby([family, "source"], sort=False)["verdict"].agg(shared).unstack("source")


def _combined(claim: Claim) -> str:
    """How the margins of a claim make its verdict."""
    predicate = claim.predicate
    if predicate is None:
        return ""
    if predicate.at_least:
        return f"in {predicate.at_least} cases at least"
    return "in all cases" if predicate.share == 1 else f"in {predicate.share:.0%} of the cases".replace("%", " %")


def _of_paper(claim: Claim, paper: Reader) -> tuple[Margin, str, str]:
    margin, verdict, reason, _ = judge(claim, paper)
    if abs(margin.value) < CLOSE:
        reason = f"the published difference is below {CLOSE}"
    return margin, _STATED.get(verdict, verdict), reason


def _of_study(claim: Claim, study: Reader) -> _Judged:
    margin, verdict, reason, every = judge(claim, study)
    return (_NOTHING if is_measured(claim) else margin), verdict, reason, every


def _of_other_study(claim: str, score: str, judged: pd.DataFrame) -> tuple[Margin, str, str, str]:
    """What another study has found of a claim."""
    own = of_claims(judged, score)
    found = own[(own["claim"] == claim) & (own["source"] == STUDY)]
    if found.empty:
        return _NOTHING, NOT_GATHERED, "that study was gathered without this claim: gather it anew", ""
    row = found.iloc[0]
    return Margin(row["value"], row["lower"], row["upper"], row["p"]), row["verdict"], row["reason"], ""


def _of_replicates(
    claim: Claim, score: str, replicates: pd.DataFrame | None, level: float
) -> tuple[Margin, str, str, str]:
    """The verdict of the replicates together: the rule of a study, with replicates as the unit.

    Args:
        claim: The claim.
        score: The proper score that stands in the place of ECE, or "".
        replicates: What was gathered.
        level: Level of the intervals.

    Returns:
        The mean of the deciding margin with the interval of Student's t, the verdict, the reason if there is none, and
        how many replicates have which verdict, with an exact sign test of the deciding margins.
    """
    if replicates is None:
        return _NOTHING, NOT_GATHERED, "no replicates of the study have been gathered", ""
    rows = _gathered(claim, score, replicates)
    if rows.empty:
        return _NOTHING, NOT_GATHERED, "the replicates were gathered without this claim: run `cocal spread` anew", ""
    every = rows[rows["case"] > 0]
    values = _numbers(every)
    if not values.size or np.isnan(values).any():
        what = "measured times are not gathered" if is_measured(claim) else "not every replicate could assess it"
        return _NOTHING, NOT_ASSESSABLE, what, ""
    margin, verdict, reason, _ = _decided(claim, _joint(every, level), level)
    return margin, verdict, reason, _counted(rows[rows["case"] == 0])


def _gathered(claim: Claim, score: str, replicates: pd.DataFrame) -> pd.DataFrame:
    """What was gathered of a claim in the studies that are the replicates."""
    wanted = (("claim", claim.id), ("source", STUDY), ("score", score))
    return replicates[np.logical_and.reduce([replicates[name] == value for name, value in wanted])]


def _joint(every: pd.DataFrame, level: float) -> list[list[Margin]]:
    """The margins of each case with replicates as the unit."""
    degenerate = (every.filter(regex=r"^verdict_\d+$") == DEGENERATE).mean(axis=1) >= 0.5
    cases: dict[int, list[Margin]] = {}
    places = zip(_numbers(every), every["case"], every["margin"], degenerate, strict=True)
    for values, number, label, flagged in places:
        cases.setdefault(number, []).append(over_replicates(values, level, label, bool(flagged)))
    return list(cases.values())


def by_unit(
    claims: Sequence[Claim], paper: Reader, study: Reader, replicates: pd.DataFrame | None = None
) -> pd.DataFrame:
    """The margin that decides each claim in each unit: of ECE, of AUROC, and of shares of the responses.

    Args:
        claims: Claims about such metrics.
        paper: The paper's published numbers.
        study: The study.
        replicates: What `cocal spread` has gathered of tables/claims.csv, if replicates were run.

    Returns:
        The columns `COLUMNS` up to the verdict and the title and family of the claim; `margin` is one of `UNITS`. The
        sources are those of `judge_all` and each replicate by its number, such as "replicate 2", with its own value
        of the margin that decides for all of them, without an interval. Verdicts are adjusted over all margins of the
        claim, as in `judge_all`.
    """
    rows = []
    for claim in claims:
        found = {source: judge(claim, reader)[3] for source, reader in ((PAPER, paper), (STUDY, study))}
        every = pd.DataFrame() if replicates is None else _gathered(claim, "", replicates)
        if found[STUDY] and len(every):
            every = every[every["case"] > 0]
            if len(every) and not np.isnan(_numbers(every)).any():
                found[REPLICATES] = _decided(claim, _joint(every, study.level), study.level)[3]
        for (source, margins), unit in product(found.items(), UNITS):
            cases: dict[int, list[tuple[Margin, str]]] = {}
            for number, margin, said in margins:
                if unit_of(margin.label) == unit:
                    cases.setdefault(number, []).append((margin, said))
            if not cases:
                continue
            margin, said = claim.predicate.deciding(list(cases.values()))
            said = _STATED.get(said, said) if source == PAPER else said
            decided = {source: (*margin[:4], said)}
            if source == REPLICATES:
                one = every[every["margin"] == margin.label].iloc[0]
                for number in (name.removeprefix("replicate_") for name in one.index if name.startswith("replicate_")):
                    own = one[f"replicate_{number}"], *[math.nan] * 3, one[f"verdict_{number}"]
                    decided[f"replicate {number}"] = own
            rows += [(claim.id, name, "", 0, unit, *own, claim.title, claim.family) for name, own in decided.items()]
    return pd.DataFrame(rows, columns=[*COLUMNS[:10], "title", "family"])


def unit_of(label: str) -> str:
    """The unit of a margin by its label, which names the methods, the metric and the case."""
    metric = label.split(", ")[1].removeprefix("range of ")
    return metric if metric in ("ece", "auroc") else "share"


def _numbers(rows: pd.DataFrame) -> np.ndarray:
    """The values of each row in every replicate, float64 [rows, replicates]."""
    return rows.filter(regex=r"^replicate_\d+$").to_numpy(dtype=np.float64)


def over_replicates(values: np.ndarray, level: float, label: str, degenerate: bool) -> Margin:
    """The mean of a margin over replicates, float64 [replicates], with interval and p-value of Student's t."""
    from scipy.special import stdtr, stdtrit  # slow to import, and few jobs have replicates

    free, mean = len(values) - 1, float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(len(values)) if free else math.nan
    half = float(stdtrit(free, (1 + level) / 2)) * error
    p = 2 * float(stdtr(free, -abs(mean) / error)) if error else float(mean == 0)
    return Margin(mean, mean - half, mean + half, p, label, degenerate)


def _counted(rows: pd.DataFrame) -> str:
    """How many replicates have which verdict, and in how many the deciding margin is positive."""
    values = _numbers(rows)[0]
    n, positive = len(values), int((values > 0).sum())
    p = sum(math.comb(n, k) for k in range(positive, n + 1)) / 2**n
    verdicts = rows.filter(regex=r"^verdict_\d+$")
    said = ", ".join(f"{int(number)} {verdict}" for verdict, number in verdicts.iloc[0].value_counts().items())
    return f"{said}; positive in {positive} of {n} (one-sided sign test, p = {p:.2f})"


def holding(count: str) -> str:
    """In how many replicates a claim holds, or is observed, in short: "3 of 5"; "" where nothing was counted."""
    verdicts = re.findall(r"(\d+) ([a-z ]+)", count.partition("; ")[0])
    found = {verdict: int(number) for number, verdict in verdicts}
    return f"{found.get(HOLDS, 0) + found.get(OBSERVED, 0)} of {sum(found.values())}" if found else ""
