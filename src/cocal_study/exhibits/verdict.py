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
from cocal_study.evidence.verdicts import completed, over_replicates
from cocal_study.exhibits.base.exhibit import FACTUAL, MATHEMATICS, OF_TABLES, TableExhibit, origin
from cocal_study.exhibits.base.ledger import ClaimsLayout, readers
from cocal_study.exhibits.typesetting.grid import HEADS, Grid, block_of
from cocal_study.exhibits.typesetting.verdict import CENTRAL, METRICS, NO, RANKED, STATED, TRAINED, UNDECIDED, YES
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


class Pair(NamedTuple):
    """A method and what it is said to be better than, a rival or chance, in a metric."""

    method: str
    rival: str
    metric: str
    dataset: str = MATHEMATICS

    @property
    def case(self) -> Case:
        """Where a study reads it."""
        return Case("first", self.dataset, PAPER_STAGES[-1], None, MAIN)

    @property
    def confident(self) -> tuple[str, ...]:
        """The methods whose confidence it compares; a comparison with chance says itself what is at chance."""
        return () if self.metric == "accuracy" or self.rival == CHANCE else (self.method, self.rival)


def _pairs(method: str, rivals: Sequence[str], *metrics: str, dataset: str = MATHEMATICS) -> tuple[Pair, ...]:
    return tuple(Pair(method, rival, metric, dataset) for rival in rivals for metric in metrics)


_COMPARABLE = "CoCal ranks answers about as well as SelfConsis"
HEADLINES = {
    TRAINED: _pairs("token-probability", ["base-verbal"], "accuracy"),
    "GRPO beats RLCR and DCPO in accuracy": _pairs("cocal-binary", _RIVALS, "accuracy"),
    STATED: _pairs("cocal-binary", _RIVALS, "ece", "auroc"),
    f"{CENTRAL}, binary target": _pairs("cocal-binary", ["postcal-binary"], "ece", "auroc"),
    f"{CENTRAL}, group target": _pairs("cocal-group", ["postcal-group"], "ece", "auroc"),
    RANKED: _pairs("cocal-binary", ["token-probability"], "auroc"),
    _COMPARABLE: _pairs("cocal-binary", ["self-consistency"], "auroc"),
    "CoCal transfers to factual questions": _pairs("cocal-binary", [CHANCE], "auroc", dataset=FACTUAL),
}
"""The claims of the abstract and of section 6, in the paper's order, with the comparisons that each rests on, beside
the two comparisons of table 1 that no sentence of it makes."""
TOLERANCE = {_COMPARABLE: 0.02}
"""How far a comparison may fall short; that of the claim `selfconsis-comparable-auroc` in config/paper/claims.yaml."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table, where the study has CoCal."""
    if has_methods(study, "cocal-binary"):
        compared = {name for pairs in HEADLINES.values() for pair in pairs for name in pair[:2]}
        # the main backbone and the stages are all that stands for the paper's here
        nothing = {"early_steps": (), "budgets": (), "datasets": {}, "layers": {}}
        layout = Layout(
            **origin(study),
            labels=(study.backbones[study.main_backbone].label,),
            scope=StudyScope(backbones=(study.main_backbone,), stages=study.policy.stages, **nothing),
            methods=tuple(name for name in available_methods(study) if name in compared),
        )
        inputs = {"resamples": [resamples_file(study.main_backbone)], "published": ["config/paper"]}
        for kind in OF_TABLES:
            gathered, _, table = kind.rpartition("_")
            if folder := getattr(study.reports, gathered):
                inputs[kind] = [f"{folder}/tables/{table}.csv"]
        yield TableExhibit(
            title="Does the paper reproduce?",
            chapter="Claims",
            position=0.5,
            caption="Headline claims of the paper, by its own differences, by those of this study or of its "
            "replicates, and by those of a language model.",
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
    """The differences behind every headline, positive where they speak for it. The result has the columns claim,
    method, rival ("" for chance), metric, dataset; paper, language_model: the differences, shares for accuracies;
    value, lower, upper, replicates, positive: the mean difference over replicates with the interval of Student's t,
    their number and how many of them bear the claim out, or without replicates the study's own difference with its
    paired bootstrap interval; at_chance: the methods of the comparison whose confidence is at chance; and word, the
    verdict on the whole claim. NaN where there is no number."""
    paper, study = readers(layout, [resamples], published)
    if central_main is not None and replicates_main is not None:
        central_main = completed(central_main, replicates_main, _KEYS, "metric")
    gathered = [_values(frame, "replicate_") for frame in (central_main, replicates_main, replicates_ood)]
    other = [_values(frame, "value") for frame in (language_model_main, language_model_ood)]
    rows = []
    for title, pairs in HEADLINES.items():
        found, tolerance = [], TOLERANCE.get(title, 0.0)
        for pair in (one for one in pairs if {one.method, one.rival} - {CHANCE} <= {*layout.methods}):
            joint = _difference(pair, gathered)
            together = joint is not None
            number = _over(joint, study.level, tolerance) if together else _alone(pair, study)
            if together:
                chance = _at_chance(pair, gathered, study.level)
            else:
                chance = [name for name in pair.confident if study.degenerate(name, pair.case)]
            beside = _difference(pair, other)
            one = {**pair._asdict(), "paper": _alone(pair, paper)[0], **dict(zip(_NUMBERS, number, strict=True))}
            one["language_model"] = np.nan if beside is None else float(beside[0])
            found.append(one | {"at_chance": ", ".join(chance)})
        word = word_of(found, tolerance)
        rows += [{"claim": title, **one, "word": word} for one in found]
    return pd.DataFrame(rows)


_NUMBERS = ("value", "lower", "upper", "replicates", "positive")
_KEYS = ["dataset", "method", "metric"]
"""The columns that tell the rows of a main table apart."""


def word_of(found: Sequence[Mapping], tolerance: float = 0.0) -> str:
    """The verdict on a claim by the intervals of its differences.

    It is "yes" if all of them lie above zero (or above what the claim tolerates), "no" if one lies below, and otherwise
    "undecided". A word on each rival follows where rivals fare differently, or else one on each metric. A claim that is
    undecided says in addition where the intervals exclude a lead as large as the paper's.
    """
    if not all(one["lower"] < one["upper"] for one in found):
        return f"{UNDECIDED}, without intervals"
    word, chance = _first_word(found, tolerance), _chance(found)
    if word == YES and chance:
        return f"{YES}, but {' and '.join(chance)} {'is' if len(chance) == 1 else 'are'} at chance"
    said = word
    labels = {CHANCE: "chance", **{name: method.label for name, method in METHODS.items()}}
    by_rival, by_metric = (_parts(found, key) for key in ("rival", "metric"))
    for parts, names in ((by_rival, labels), (by_metric, METRICS)):
        each = {name: _part_word(part, tolerance) for name, part in parts.items()}
        if len({*each.values()}) > 1:
            said += f" ({', '.join(f'{names[name]} {one}' for name, one in each.items())})"
            break
    excluded = {name: all(one["paper"] > one["upper"] for one in part) for name, part in by_metric.items()}
    if word == UNDECIDED and any(excluded.values()):
        smaller = [METRICS[name] for name, is_excluded in excluded.items() if is_excluded]
        where = "" if all(excluded.values()) else f" in {' and '.join(smaller)}"
        said += f"; the lead is smaller than the paper's{where}"
    return said


def _parts(found: Sequence[Mapping], key: str) -> dict[str, list[Mapping]]:
    return {one[key]: [other for other in found if other[key] == one[key]] for one in found}


def _chance(found: Sequence[Mapping]) -> list[str]:
    """The labels of the methods whose confidence is at chance."""
    names = dict.fromkeys(name for one in found for name in one["at_chance"].split(", ") if name)
    return [METHODS[name].label for name in names]


def _part_word(found: Sequence[Mapping], tolerance: float) -> str:
    word = _first_word(found, tolerance)
    return f"{word} but at chance" if word == YES and _chance(found) else word


def _first_word(found: Sequence[Mapping], tolerance: float) -> str:
    if any(one["upper"] < -tolerance for one in found):
        return NO
    return YES if all(one["lower"] > -tolerance for one in found) else UNDECIDED


def _values(frame: pd.DataFrame | None, prefix: str) -> pd.DataFrame:
    """The values of a table by data set, method and metric, a column for each replicate; no rows if there is none."""
    found = (pd.DataFrame(columns=_KEYS) if frame is None else frame).set_index(_KEYS)
    return found[[name for name in found if name.startswith(prefix)]]


def _rows(frames: Sequence[pd.DataFrame], dataset: str, *rows: tuple[str, str]) -> list[np.ndarray] | None:
    """The values of rows, which are a method and a metric, float64 [replicates], in the first table that has all."""
    for frame in frames:
        if all((dataset, *row) in frame.index for row in rows):
            return [frame.loc[(dataset, *row)].to_numpy(np.float64) for row in rows]
    return None


def _difference(pair: Pair, frames: Sequence[pd.DataFrame]) -> np.ndarray | None:
    """The difference in every replicate, float64 [replicates], in the first table that has both of its rows."""
    rivals = [] if pair.rival == CHANCE else [pair.rival]
    found = _rows(frames, pair.dataset, *((name, pair.metric) for name in (pair.method, *rivals)))
    return None if found is None else _directed(found[0] - (found[1] if rivals else 0.5), pair.metric)


def _directed(difference, metric: str):
    return -difference if BETTER[metric] == "lower" else difference


def _over(values: np.ndarray, level: float, tolerance: float = 0.0) -> tuple[float, float, float, int, int]:
    found = over_replicates(values, level, "")
    return found.value, found.lower, found.upper, values.size, int((values > -tolerance).sum())


def _alone(pair: Pair, reader: Reader) -> tuple[float, ...]:
    """The difference in one study, or in the paper, whose interval is the number itself."""
    try:
        if pair.rival == CHANCE:
            found = reader.read(Quantity(pair.metric, pair.method, pair.case)) - 0.5
        else:
            found = reader.difference(pair.metric, pair.method, pair.rival, pair.case)
    except NotAssessableError:
        return (np.nan,) * len(_NUMBERS)
    found = _directed(found, pair.metric)
    return found.value, *found.interval(reader.level), np.nan, np.nan


def _at_chance(pair: Pair, frames: Sequence[pd.DataFrame], level: float) -> list[str]:
    """Methods whose AUROC over replicates has an interval that holds one half, or whose mean confidence has none."""
    names = ("mean_confidence", "auroc")
    found = {one: _rows(frames, pair.dataset, *((one, name) for name in names)) for one in pair.confident}
    return [name for name, both in found.items() if both and degenerate(*(_over(one, level)[1:3] for one in both))]


def grid(numbers: pd.DataFrame, layout: Layout, **_: object) -> Grid:
    """Set the table, with a group of rows for each claim and its verdict above them."""
    least, most = numbers["replicates"].min(), numbers["replicates"].max()
    ours = "This study" if np.isnan(most) else f"{most:.0f} replicates"
    if least < most:
        ours = f"{least:.0f} to {ours}"
    groups = [
        (f"{claim}: {word}", [(_label(one), _cells(one)) for one in found.itertuples()])
        for (claim, word), found in numbers.groupby(["claim", "word"], sort=False)
    ]
    return Grid(
        title="Does the paper reproduce?",
        caption=f"The paper's headline claims, on {SUBJECTS[MATHEMATICS]} unless said. Differences are positive where "
        "they speak for the claim, in points for accuracies; over replicates they are means with the interval of "
        "Student's t, and “for it” counts the replicates that bear the claim out. LM: a study of a pre-trained "
        "language model. A claim has the word yes if all of its intervals lie above zero, and no if one lies below.",
        blocks=(block_of("Claim and comparison", ("Paper", ours, "95 %", "For it", "LM"), groups),),
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
