"""The paper's headline claims beside what the replicates and a language model give (beyond the paper).

Every difference is one of two rows of the main table or of its counterpart on factual questions, so that a reader can
recompute it. The claims that the paper makes in words, with all of their margins, are those of tables/claims.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from cocal.metrics.shown import UNDEFINED
from cocal_study.config.methods import METHODS, MethodName
from cocal_study.config.study import Study
from cocal_study.cubes.better import BETTER
from cocal_study.cubes.cells import degenerate
from cocal_study.cubes.resamples import MAIN, Resamples
from cocal_study.evidence.predicates import Case, NotAssessableError, Quantity, Reader
from cocal_study.evidence.published import Published
from cocal_study.evidence.sources import PAPER_STAGES, StudyScope
from cocal_study.evidence.verdicts import over_replicates
from cocal_study.exhibits.base.exhibit import FACTUAL, MATHEMATICS, OF_TABLES, TableExhibit, origin
from cocal_study.exhibits.base.ledger import ClaimsLayout, readers
from cocal_study.exhibits.typesetting.grid import HEADS, Block, Cell, Grid, Group, Head, Row
from cocal_study.exhibits.typesetting.verdict import CENTRAL, METRICS, NO, UNDECIDED, YES
from cocal_study.exhibits.typesetting.wording import SUBJECTS, signed
from cocal_study.planning.plan import available_methods, has_methods
from cocal_study.planning.results import resamples_file


class Layout(ClaimsLayout):
    """Layout of the table."""

    methods: tuple[MethodName, ...]
    """The methods of the study; claims about others are left out."""


CHANCE = ""
"""The rival of a number that is compared with chance."""
_RIVALS = ("rlcr", "dcpo")
_QUALITY = ("ece", "auroc")


class Pair(NamedTuple):
    """A method and what it is said to be better than, a rival or chance, in a metric."""

    method: str
    rival: str
    metric: str
    dataset: str = MATHEMATICS


class Headline(NamedTuple):
    """A claim of the paper in words, the comparisons that it rests on, and how far each of them may fall short."""

    title: str
    pairs: tuple[Pair, ...]
    tolerance: float = 0.0


def _both(method: str, *rivals: str) -> tuple[Pair, ...]:
    return tuple(Pair(method, rival, metric) for rival in rivals for metric in _QUALITY)


HEADLINES = (
    Headline(
        "Training improves accuracy, with a companion beside it",
        (Pair("token-probability", "base-verbal", "accuracy"),),
    ),
    Headline(
        "RLCR and DCPO trail in accuracy",
        tuple(Pair("cocal-binary", rival, "accuracy") for rival in _RIVALS),
    ),
    Headline("CoCal's confidence is better than theirs", _both("cocal-binary", *_RIVALS)),
    Headline(f"{CENTRAL}, binary target", _both("cocal-binary", "postcal-binary")),
    Headline(f"{CENTRAL}, group target", _both("cocal-group", "postcal-group")),
    Headline(
        "CoCal ranks answers better than token probability", (Pair("cocal-binary", "token-probability", "auroc"),)
    ),
    Headline(
        "CoCal ranks answers about as well as SelfConsis",
        (Pair("cocal-binary", "self-consistency", "auroc"),),
        tolerance=0.02,  # that of the claim `selfconsis-comparable-auroc` in config/paper/claims.yaml
    ),
    Headline("CoCal transfers to factual questions", (Pair("cocal-binary", CHANCE, "auroc", FACTUAL),)),
)
"""The claims of the abstract and of section 6, in the paper's order, beside the two comparisons of table 1 that no
sentence of it makes."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table, where the study has CoCal."""
    if has_methods(study, "cocal-binary"):
        compared = {name for one in HEADLINES for pair in one.pairs for name in pair[:2]}
        # the main backbone and the stages are all that stands for the paper's here
        nothing = {"early_steps": (), "budgets": (), "datasets": {}, "layers": {}}
        layout = Layout(
            **origin(study),
            labels=(study.backbones[study.main_backbone].label,),
            scope=StudyScope(backbones=(study.main_backbone,), stages=study.policy.stages, **nothing),
            methods=tuple(name for name in available_methods(study) if name in compared),
        )
        inputs = {"resamples": resamples_file(study.main_backbone), "published": "config/paper"}
        for kind in OF_TABLES:
            gathered, _, table = kind.rpartition("_")
            if folder := getattr(study.reports, gathered):
                inputs[kind] = f"{folder}/tables/{table}.csv"
        yield TableExhibit(
            title="Does the paper reproduce?",
            chapter="Claims",
            position=0.5,
            caption="Headline claims of the paper: its own differences, those of this study or of its replicates with "
            "95 % intervals, and those of a language model. Positive differences speak for the claim.",
            layout=layout,
            inputs=inputs,
        )


def prepare(
    layout: Layout,
    resamples: Resamples,
    published: Published,
    replicates_main: pd.DataFrame | None = None,
    replicates_ood: pd.DataFrame | None = None,
    central_main: pd.DataFrame | None = None,
    language_model_main: pd.DataFrame | None = None,
    language_model_ood: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """The differences behind every headline, positive where they speak for it.

    Returns:
        Columns claim, method, rival ("" for chance), metric, dataset; paper, language_model: the differences, shares
        for accuracies; value, lower, upper, replicates, positive: the mean difference over replicates with the interval
        of Student's t, their number and how many of them bear the claim out, or without replicates the study's own
        difference with its paired bootstrap interval; at_chance: the methods of the comparison whose confidence is at
        chance; and word, the verdict on the whole claim. NaN where there is no number.
    """
    paper, study = readers(layout, [resamples], published)
    gathered = [_values(frame, "replicate_") for frame in (central_main, replicates_main, replicates_ood)]
    other = [_values(frame, "value") for frame in (language_model_main, language_model_ood)]
    rows = []
    for headline in HEADLINES:
        found = []
        for pair in (one for one in headline.pairs if {one.method, one.rival} - {CHANCE} <= {*layout.methods}):
            joint = _difference(pair, gathered)
            together = joint is not None
            number = _over(joint, study.level, headline.tolerance) if together else _alone(pair, study)
            chance = _at_chance(pair, gathered, study.level) if together else _degenerate(pair, study)
            beside = _difference(pair, other)
            one = {**pair._asdict(), "paper": _alone(pair, paper)[0], **dict(zip(_NUMBERS, number, strict=True))}
            one["language_model"] = np.nan if beside is None else float(beside[0])
            found.append(one | {"at_chance": ", ".join(chance)})
        word = words_of(found, headline.tolerance)
        rows += [{"claim": headline.title, **one, "word": word} for one in found]
    return pd.DataFrame(rows)


_NUMBERS = ("value", "lower", "upper", "replicates", "positive")


def words_of(found: Sequence[Mapping], tolerance: float = 0.0) -> str:
    """The verdict on a claim: that of `word_of`, or where rivals fare differently a word on each, the worst first."""
    rivals = dict.fromkeys(one["rival"] for one in found)
    each = {name: word_of([one for one in found if one["rival"] == name], tolerance) for name in rivals}
    if len({word.partition(",")[0] for word in each.values()}) == 1:
        return word_of(found, tolerance)
    ordered = [(word, name) for word in (NO, UNDECIDED, YES) for name in rivals if each[name].startswith(word)]
    return ", ".join(f"{word} over {METHODS[name].label}" for word, name in ordered)


def word_of(found: Sequence[Mapping], tolerance: float = 0.0) -> str:
    """The verdict on a claim by the intervals of its differences.

    It is "yes" if all of them lie above zero (or above what the claim tolerates), "no" if one lies below, and otherwise
    undecided, which says in addition in which metrics they exclude a difference as large as the paper's.
    """
    known = [one for one in found if one["lower"] < one["upper"]]
    if len(known) < len(found):
        return f"{UNDECIDED}, without intervals"
    if any(one["upper"] < -tolerance for one in found):
        return NO
    if not all(one["lower"] > -tolerance for one in found):
        excluded = dict.fromkeys(METRICS[one["metric"]] for one in found if one["paper"] > one["upper"])
        told = f", but a difference in {' and '.join(excluded)} as large as the paper's is excluded"
        return UNDECIDED + told * bool(excluded)
    chance = dict.fromkeys(name for one in found for name in one["at_chance"].split(", ") if name)
    return YES + (f", but {' and '.join(METHODS[name].label for name in chance)} is at chance" if chance else "")


def _values(frame: pd.DataFrame | None, prefix: str) -> pd.DataFrame | None:
    """The values of a table by data set, method and metric, a column for each replicate."""
    if frame is None:
        return None
    found = frame.set_index(["dataset", "method", "metric"])
    return found[[name for name in found if name.startswith(prefix)]]


def _number(frames: Sequence[pd.DataFrame | None], dataset: str, method: str, metric: str) -> np.ndarray | None:
    """The values of a row, float64 [replicates], in the first of several tables that has it."""
    for frame in frames:
        if frame is not None and (dataset, method, metric) in frame.index:
            return frame.loc[(dataset, method, metric)].to_numpy(np.float64)
    return None


def _difference(pair: Pair, frames: Sequence[pd.DataFrame | None]) -> np.ndarray | None:
    """The difference in every replicate, float64 [replicates], in the first table that has both of its rows."""
    for frame in frames:
        ours = _number([frame], pair.dataset, pair.method, pair.metric)
        rival = 0.5 if pair.rival == CHANCE else _number([frame], pair.dataset, pair.rival, pair.metric)
        if ours is not None and rival is not None:
            return _directed(ours - rival, pair.metric)
    return None


def _directed(difference, metric: str):
    return -difference if BETTER[metric] == "lower" else difference


def _over(values: np.ndarray, level: float, tolerance: float = 0.0) -> tuple[float, float, float, int, int]:
    found = over_replicates(values, level, "")
    return found.value, found.lower, found.upper, values.size, int((values > -tolerance).sum())


def _alone(pair: Pair, reader: Reader) -> tuple[float, ...]:
    """The difference in one study, or in the paper, whose interval is the number itself."""
    case = Case("first", pair.dataset, PAPER_STAGES[-1], None, MAIN)
    try:
        if pair.rival == CHANCE:
            found = reader.read(Quantity(pair.metric, pair.method, case)) - 0.5
        else:
            found = reader.difference(pair.metric, pair.method, pair.rival, case)
    except NotAssessableError:
        return (np.nan,) * len(_NUMBERS)
    found = _directed(found, pair.metric)
    return found.value, *found.interval(reader.level), np.nan, np.nan


def _of_confidence(pair: Pair) -> tuple[str, ...]:
    """The methods of a pair whose confidence it compares; a comparison with chance says itself what is at chance."""
    return () if pair.metric == "accuracy" or pair.rival == CHANCE else (pair.method, pair.rival)


def _at_chance(pair: Pair, frames: Sequence[pd.DataFrame | None], level: float) -> list[str]:
    """Methods whose AUROC over replicates has an interval that holds one half, or whose mean confidence has none."""
    found = []
    for name in _of_confidence(pair):
        mean, auroc = (_number(frames, pair.dataset, name, metric) for metric in ("mean_confidence", "auroc"))
        if mean is not None and auroc is not None and degenerate(_over(mean, level)[1:3], _over(auroc, level)[1:3]):
            found.append(name)
    return found


def _degenerate(pair: Pair, study: Reader) -> list[str]:
    case = Case("first", pair.dataset, PAPER_STAGES[-1], None, MAIN)
    return [name for name in _of_confidence(pair) if study.degenerate(name, case)]


def grid(numbers: pd.DataFrame, layout: Layout, **_: object) -> Grid:
    """Set the table, with a group of rows for each claim and its verdict above them."""
    together = numbers["replicates"].notna().any()
    ours = f"{int(numbers['replicates'].max())} replicates" if together else "This study"
    groups = []
    for claim in numbers["claim"].unique():
        found = numbers[numbers["claim"] == claim]
        rows = tuple(Row(_label(one), tuple(map(Cell, _cells(one)))) for one in found.itertuples())
        groups.append(Group(rows, f"{claim}: {found['word'].iloc[0]}"))
    heads = tuple(map(Head, ("Paper", ours, "95 %", "For it", "LM")))
    return Grid(
        title="Does the paper reproduce?",
        caption=f"The paper's headline claims, on {SUBJECTS[MATHEMATICS]} unless said. Differences are positive where "
        "they speak for the claim, in points for accuracies; over replicates they are means with the interval of "
        "Student's t, and “for it” counts the replicates that bear the claim out. LM: a study of a pre-trained "
        "language model. A claim has the word yes if all of its intervals lie above zero, and no if one lies below.",
        label="verdict",
        blocks=(Block(corner="Claim and comparison", heads=(heads,), groups=tuple(groups)),),
        size="footnotesize",
    )


def _label(row) -> str:
    rival = "chance" if row.rival == CHANCE else METHODS[row.rival].label
    return f"{METHODS[row.method].label} over {rival}, {HEADS[row.metric].rstrip('↑↓.')}"


def _cells(row) -> tuple[str, ...]:
    def said(value: float) -> str:
        return UNDEFINED if np.isnan(value) else signed(row.metric, value)

    interval = f"{said(row.lower)} to {said(row.upper)}" if row.lower < row.upper else UNDEFINED
    counts = UNDEFINED if np.isnan(row.replicates) else f"{row.positive:.0f} of {row.replicates:.0f}"
    return said(row.paper), said(row.value), interval, counts, said(row.language_model)
