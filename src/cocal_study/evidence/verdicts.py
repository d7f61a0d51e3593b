"""Verdicts on the paper's claims by its own numbers, by a study, and by the replicates of the study together."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd

from cocal_study.config.methods import METHODS
from cocal_study.evidence.claims import Claim
from cocal_study.evidence.predicates import OBSERVED, UNOBSERVED, Case, Margin, NotAssessableError, Predicate, Reader
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
FOUND = 0.8
"""How likely replicates are to separate a detectable margin from zero."""
CLOSE = 0.01
"""Published differences below this are marked."""
COST = "cost"
"""The kind of claims about measured times, which are no evidence on calibration and are counted apart."""
_PLACE = ("claim", "source", "score", "case", "margin")
_NUMBERS = ("value", "lower", "upper", "p", "at_chance", "detectable")
"""The fields of a margin that are shown."""
_YES_NO = {True: "yes", False: "no"}
_TESTS = ("zero_excluded", "published", "paper_excluded")
COLUMNS = (*_PLACE, *_NUMBERS, *_TESTS, "verdict", "positive", "replicates", "reason")
COLUMNS += ("title", "family", "kind", "combined", "section", "quotation")
_NOTHING = Margin(math.nan, math.nan, math.nan)


class Judged(NamedTuple):
    """What a source says of a claim."""

    margin: Margin
    """The deciding margin, positive where the claim is true."""
    verdict: str
    reason: str
    """Why there is no verdict by numbers, or a remark on the verdict."""
    every: Sequence[tuple[int, Margin, str]] = ()
    """Every margin with the number of its case and its own verdict."""
    values: pd.DataFrame | None = None
    """Values of every margin in every replicate, by case and label, if the replicates are the source."""


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


def judge(claim: Claim, reader: Reader) -> Judged:
    """Judge a claim by the numbers of a source."""
    if claim.predicate is None:
        return Judged(_NOTHING, UNDER_SPECIFIED if claim.reason else NOT_ASSESSABLE, claim.reason or claim.cannot_fail)
    try:
        cases = list(claim.predicate.cases(cases_of(claim), reader))
    except NotAssessableError as error:
        return Judged(_NOTHING, NOT_ASSESSABLE, str(error))
    return _decided(claim.predicate, cases, reader.level)


def _decided(predicate: Predicate, cases: Sequence[Sequence[Margin]], level: float) -> Judged:
    if any(math.isnan(number) for case in cases for margin in case for number in margin[:2]):
        return Judged(_NOTHING, NOT_ASSESSABLE, "a number is undefined on all resamples")
    verdicts = predicate.verdicts(cases, level)
    every = [
        (number, *pair)
        for number, (case, said) in enumerate(zip(cases, verdicts, strict=True), 1)
        for pair in zip(case, said, strict=True)
    ]
    chance = [name for _, margin, _ in every for name in margin.at_chance.split(", ") if name]
    names = dict.fromkeys(name.partition("@")[0] for name in chance)  # without layers or states
    reason = f"constant or at chance: {', '.join(METHODS[name].label for name in names)}" if names else ""
    return Judged(*predicate.decide(cases, level), reason, every)


def judge_all(
    claims: Sequence[Claim],
    paper: Reader,
    study: Reader,
    replicates: pd.DataFrame | None = None,
    language_model: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Judge every claim of the ledger by the paper's published numbers, by a study, by what `cocal spread` has gathered
    of the tables/claims.csv of its replicates, and by the result of this function in a study of a language model.

    Returns:
        The columns `COLUMNS`, with a row for each claim and source, whose case is 0 and whose margin is "", and one for
        each margin of the study and of its replicates together, without the paper's words. Claims that compare ECEs
        have the same rows again with each proper score. `value`, `lower` and `upper` are the margin (for a claim, the
        deciding one), positive where the claim is true, in the unit of its metric (shares for accuracies), with its own
        interval of 95 %; `p` is not adjusted. For replicates they are the mean and the interval of Student's t, and
        `detectable` is the margin that this many replicates would detect in four of five cases. `zero_excluded` and
        `paper_excluded` are "yes" or "no" where there is an interval and a `published` margin of the paper; `at_chance`
        names the confidences in a margin that are constant or at chance, and `positive` says in how many replicates it
        is positive. Numbers are NaN without a verdict by numbers, and for times that the study measured, which differ
        from run to run.
    """
    rows = []
    for claim in claims:
        kind = COST if is_measured(claim) else claim.kind
        said = (claim.title, claim.family, kind, _combined(claim), claim.section, claim.quotation.strip())
        published = judge(claim, paper)
        for score in SCORES:
            scored = claim.scored_by(score) if score else claim
            if scored is None:
                continue
            stated = {} if score else {(number, margin.label): margin.value for number, margin, _ in published.every}
            by_source = {} if score else {PAPER: _of_paper(published)}
            own = judge(scored, study)
            by_source[STUDY] = own._replace(margin=_NOTHING) if is_measured(claim) else own
            by_source[REPLICATES] = Judged(_NOTHING, own.verdict, own.reason)
            if own.verdict not in (NOT_ASSESSABLE, UNDER_SPECIFIED):
                by_source[REPLICATES] = _of_replicates(scored, score, replicates, study.level)
            if language_model is not None:
                by_source[LANGUAGE_MODEL] = _of_other_study(claim.id, score, language_model)
            for source, judged in by_source.items():
                case = next((number for number, margin, _ in judged.every if margin == judged.margin), 0)
                shown = _shown(source, judged.margin, case, stated, judged.values)
                rows.append(
                    (claim.id, source, score, 0, "", *shown[0], judged.verdict, *shown[1], judged.reason, *said)
                )
                for number, margin, verdict in () if is_measured(claim) else judged.every:
                    shown = _shown(source, margin, number, stated, judged.values)
                    place = (claim.id, source, score, number, margin.label)
                    rows.append((*place, *shown[0], verdict, *shown[1], "", *said[:3], "", "", ""))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _shown(
    source: str, margin: Margin, case: int, stated: Mapping[tuple[int, str], float], replicates: pd.DataFrame | None
) -> tuple[tuple, tuple[float, float]]:
    """The numbers of a margin and its tests beside the paper's margins of the claim (`stated`), and the numbers of
    replicates with a positive margin and of all. The paper has no intervals; only this study and its replicates are
    tested."""
    tested = source in (STUDY, REPLICATES) and margin.lower < margin.upper
    published = stated.get((case, margin.label), math.nan) if tested else math.nan
    zero = _YES_NO[margin.excludes(0.0)] if tested else ""
    paper = "" if math.isnan(published) else _YES_NO[margin.excludes(published)]
    counts = math.nan, math.nan
    if replicates is not None and (case, margin.label) in replicates.index:
        values = replicates.loc[(case, margin.label)].to_numpy(np.float64)
        counts = int((values > 0).sum()), values.size
    return (*(getattr(margin, name) for name in _NUMBERS), zero, published, paper), counts


def of_claims(judged: pd.DataFrame, score: str = "") -> pd.DataFrame:
    """The rows of whole claims, without those of their margins; with a proper score in the place of ECE, if named."""
    return judged[(judged["case"] == 0) & (judged["score"] == score)]


def of_families(judged: pd.DataFrame) -> pd.DataFrame:
    """The verdicts of the families of claims that a study can judge, by family (rows) and source (columns).

    A family has the verdict that all of its members share, apart from those that are not assessable, and is otherwise
    mixed. Claims about costs belong to no family.
    """
    whole = of_claims(judged)
    whole = whole[whole["kind"] != COST]
    family = whole["family"].where(whole["family"] != "", whole["title"])

    def shared(verdicts: pd.Series) -> str:
        for silent in (NOT_ASSESSABLE, UNDER_SPECIFIED, NOT_GATHERED):
            if not (verdicts == silent).all():
                verdicts = verdicts[verdicts != silent]
        return verdicts.iloc[0] if verdicts.nunique() == 1 else MIXED

    return whole.groupby([family, "source"], sort=False)["verdict"].agg(shared).unstack("source")


def _combined(claim: Claim) -> str:
    """In how many of its cases a claim has to hold, in words."""
    predicate = claim.predicate
    if predicate is None:
        return ""
    if predicate.at_least:
        return f"in {predicate.at_least} cases at least"
    return "in all cases" if predicate.share == 1 else f"in {predicate.share:.0%} of the cases".replace("%", " %")


def _of_paper(judged: Judged) -> Judged:
    close = abs(judged.margin.value) < CLOSE
    reason = f"the published difference is below {CLOSE}" if close else judged.reason
    return Judged(judged.margin, _STATED.get(judged.verdict, judged.verdict), reason)


def _of_other_study(claim: str, score: str, judged: pd.DataFrame) -> Judged:
    own = of_claims(judged, score)
    rows = own[(own["claim"] == claim) & (own["source"] == STUDY)]
    if rows.empty:
        return Judged(_NOTHING, NOT_GATHERED, "that study was gathered without this claim: gather it anew")
    row = rows.iloc[0]
    return Judged(Margin(row["value"], row["lower"], row["upper"], row["p"]), row["verdict"], row["reason"])


def _of_replicates(claim: Claim, score: str, replicates: pd.DataFrame | None, level: float) -> Judged:
    """The verdict of the replicates together: the rule is that for a study, with replicates as the unit, so margins are
    means over replicates with intervals of Student's t."""
    if replicates is None:
        return Judged(_NOTHING, NOT_GATHERED, "no replicates of the study have been gathered")
    every = _gathered(claim, score, replicates)
    if every.empty:
        why = "the replicates were gathered without this claim: run `cocal spread` anew"
        return Judged(_NOTHING, NOT_GATHERED, why)
    values = _numbers(every)
    if claim.predicate is None or not values.size or np.isnan(values).any():
        what = "measured times are not gathered" if is_measured(claim) else "not every replicate could assess it"
        return Judged(_NOTHING, NOT_ASSESSABLE, what)
    place = pd.MultiIndex.from_frame(every[["case", "margin"]])
    return _decided(claim.predicate, _joint(every, level), level)._replace(
        values=pd.DataFrame(values, index=place).sort_index()
    )


def joined(replicates: pd.DataFrame | None, central: pd.DataFrame | None) -> pd.DataFrame | None:
    """Gathered claims. A claim that all replicates of the central comparison could assess is judged by these, and by
    replicates of the whole study with other numbers, because equal numbers mean the same policies. The other claims are
    judged by replicates of the whole study."""
    if central is None or replicates is None:
        return replicates if central is None else central
    margins = central[(central["source"] == STUDY) & (central["case"] > 0)]
    silent = margins["claim"][np.isnan(_numbers(margins)).any(axis=1)]
    claims = set(margins["claim"]) - set(silent)
    judged = replicates["claim"].isin(claims)
    rows = completed(central[central["claim"].isin(claims)], replicates, list(_PLACE), "claim")
    return pd.concat([replicates[~judged], rows], ignore_index=True)


def completed(central: pd.DataFrame, whole: pd.DataFrame, keys: list[str], group: str) -> pd.DataFrame:
    """Gathered rows of the central comparison, extended by the columns of replicates that only the whole study has, in
    those groups of rows that the whole study has completely. `keys` identify the rows."""
    columns = [name for name in whole if name not in central]
    merged = central.merge(whole[[*keys, *columns]], "left", on=keys, validate="1:1", indicator="both")
    lacking = merged.loc[merged.pop("both") != "both", group]
    return merged.assign(**merged.loc[~merged[group].isin(lacking), columns])


def _gathered(claim: Claim, score: str, replicates: pd.DataFrame) -> pd.DataFrame:
    """The margins of a claim that were gathered from the replicates, each of which is a study."""
    rows = replicates[(replicates["claim"] == claim.id) & (replicates["source"] == STUDY)]
    rows = rows[rows["score"] == score]
    return rows[rows["case"] > 0] if (rows["case"] > 0).any() else rows


def _joint(every: pd.DataFrame, level: float) -> list[list[Margin]]:
    """The margins of each case with replicates as the unit; a confidence is at chance if it is in half of them."""
    chance = every.filter(regex=r"^at_chance_\d+$").dropna(axis=1, how="all").fillna("")
    cases: dict[int, list[Margin]] = {}
    for place, values in enumerate(_numbers(every)):
        said = Counter(name for cell in chance.iloc[place] for name in cell.split(", ") if name)
        names = ", ".join(name for name, count in said.items() if 2 * count >= len(chance.columns))
        row = every.iloc[place]
        cases.setdefault(row["case"], []).append(over_replicates(values, level, row["margin"], names))
    return list(cases.values())


def by_unit(
    claims: Sequence[Claim], paper: Reader, study: Reader, replicates: pd.DataFrame | None = None
) -> pd.DataFrame:
    """The margin that decides each claim in each unit: of ECE, of AUROC, and of shares of the responses. All sources,
    given as for `judge_all`, show the same comparison: the one that decides by the replicates, or else by the study.

    The result has the columns of `COLUMNS` that tell the place, the margin up to its p-value, the verdict of the
    comparison, title and family; `margin` is one of `UNITS`.
    """
    rows = []
    for claim in claims:
        margins = {source: judge(claim, reader).every for source, reader in ((PAPER, paper), (STUDY, study))}
        every = pd.DataFrame() if replicates is None else _gathered(claim, "", replicates)
        values = _numbers(every)
        if claim.predicate and margins[STUDY] and values.size and not np.isnan(values).any():
            margins[REPLICATES] = _decided(claim.predicate, _joint(every, study.level), study.level).every
        decides = next((name for name in (REPLICATES, STUDY) if margins.get(name)), PAPER)
        for unit, source in product(UNITS, margins):
            shown = _deciding(claim, margins[decides], unit)
            margin, said = next((row[1:] for row in margins[source] if (row[0], row[1].label) == shown), (None, ""))
            if margin is None:
                continue
            said = _STATED.get(said, said) if source == PAPER else said
            rows.append((claim.id, source, "", 0, unit, *margin[:4], said, claim.title, claim.family))
    return pd.DataFrame(rows, columns=[*_PLACE, *_NUMBERS[:4], "verdict", "title", "family"])


def _deciding(claim: Claim, margins: Sequence[tuple[int, Margin, str]], unit: str) -> tuple[int, str] | None:
    """The case and the label of the margin that decides a claim in a unit, if there is one."""
    cases: dict[int, list[tuple[Margin, str]]] = {}
    for number, margin, said in margins:
        metric = margin.label.split(", ")[1].removeprefix("range of ")  # a label names methods, metric and case
        if unit == (metric if metric in UNITS else "share"):
            cases.setdefault(number, []).append((margin, said))
    if not cases or claim.predicate is None:
        return None
    decides, _ = claim.predicate.deciding(list(cases.values()))
    return next((number, margin.label) for number, margin, _ in margins if margin is decides)


def _numbers(rows: pd.DataFrame) -> np.ndarray:
    """The values of each row in every replicate that has some of them, float64 [rows, replicates]."""
    return rows.filter(regex=r"^replicate_\d+$").dropna(axis=1, how="all").to_numpy(dtype=np.float64)


def over_replicates(values: np.ndarray, level: float, label: str, at_chance: str = "") -> Margin:
    """The mean of a margin over replicates, float64 [replicates], with interval and p-value of Student's t, and the
    margin that this many replicates would detect with the probability `FOUND`."""
    from scipy.special import stdtr, stdtrit  # slow to import, and few jobs have replicates

    free, mean = len(values) - 1, float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(len(values)) if free else math.nan
    quantile = float(stdtrit(free, (1 + level) / 2))
    half, detectable = quantile * error, (quantile + float(stdtrit(free, FOUND))) * error
    p = 2 * float(stdtr(free, -abs(mean) / error)) if error else float(mean == 0)
    return Margin(mean, mean - half, mean + half, p, label, at_chance, detectable)
