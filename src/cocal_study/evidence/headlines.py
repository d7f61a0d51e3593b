"""The paper's headline claims, the comparisons that each rests on, and the verdicts that follow from the numbers.

Every comparison is a difference of two numbers of the main table, or of its counterpart on factual questions, so that a
reader can recompute it. The claims that the paper makes in words, with all of their margins, are those of
tables/claims.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from cocal_study.config.methods import METHODS
from cocal_study.cubes.better import gain
from cocal_study.cubes.cells import degenerate
from cocal_study.cubes.resamples import MAIN
from cocal_study.evidence.comparisons import holm
from cocal_study.evidence.estimates import Estimate
from cocal_study.evidence.predicates import Case, NotAssessableError, Quantity, Reader
from cocal_study.evidence.sources import PAPER_STAGES
from cocal_study.evidence.verdicts import over_replicates
from cocal_study.planning.plan import FACTUAL, MATHEMATICS

CHANCE = ""
"""The baseline of a number that is compared with chance."""
CENTRAL = "CoCal beats PostCal"
"""Beginning of the headlines on which the paper rests: each companion of CoCal against PostCal's with its target."""
COMPARABLE = "CoCal ranks answers about as well as SelfConsis"
YES, NO, UNDECIDED = "yes", "no", "undecided"
"""The words with which the verdicts on headlines begin."""
NAMES = {"accuracy": "accuracy", "ece": "ECE", "auroc": "AUROC"}
"""Names of the metrics in words."""
NUMBERS = ("value", "lower", "upper", "replicates", "positive")
"""The numbers of a difference: its mean with the interval, the number of replicates, and the number of those in which
it is positive; NaN where there are none."""
KEYS = ["dataset", "method", "metric"]
"""The columns that identify the rows of a main table."""
SECOND = "second_"
"""Prefix of the columns with the same numbers under the second sampling."""
_NEAR = 2 / 3
"""A baseline is nearer to chance than the paper's where its AUROC lies less than this share of the paper's distance
above one half, the rule of the required conditions (tables/conditions)."""
_FEW = 3
"""Fewer replicates than these are not used, because an interval over two of them excludes nothing."""
_BASELINES = ("rlcr", "dcpo")


class Pair(NamedTuple):
    """A method and what it is said to be better than, a baseline or chance, in a metric."""

    method: str
    baseline: str
    metric: str
    dataset: str = MATHEMATICS

    @property
    def case(self) -> Case:
        """The case for which a source reads its numbers."""
        return Case("first", self.dataset, PAPER_STAGES[-1], None, MAIN)

    @property
    def confident(self) -> tuple[str, ...]:
        """The methods whose confidences it compares; none for accuracies, and none in a comparison with chance."""
        return () if self.metric == "accuracy" or self.baseline == CHANCE else (self.method, self.baseline)


def _pairs(method: str, baselines: Sequence[str], *metrics: str, dataset: str = MATHEMATICS) -> tuple[Pair, ...]:
    return tuple(Pair(method, baseline, metric, dataset) for baseline in baselines for metric in metrics)


HEADLINES = {
    "Training improves accuracy, with a companion beside it": _pairs("token-probability", ["base-verbal"], "accuracy"),
    "GRPO beats RLCR and DCPO in accuracy": _pairs("cocal-binary", _BASELINES, "accuracy"),
    "CoCal's confidence beats RLCR's and DCPO's": _pairs("cocal-binary", _BASELINES, "ece", "auroc"),
    f"{CENTRAL}, binary target": _pairs("cocal-binary", ["postcal-binary"], "ece", "auroc"),
    f"{CENTRAL}, group target": _pairs("cocal-group", ["postcal-group"], "ece", "auroc"),
    "CoCal ranks answers better than token probability": _pairs("cocal-binary", ["token-probability"], "auroc"),
    COMPARABLE: _pairs("cocal-binary", ["self-consistency"], "auroc"),
    "CoCal transfers to factual questions": _pairs("cocal-binary", [CHANCE], "auroc", dataset=FACTUAL),
}
"""The claims of the abstract and of section 6, in the paper's order, with the comparisons that each rests on, and two
comparisons of table 1 that no sentence of the paper makes."""
TOLERANCE = {COMPARABLE: 0.02}
"""How far a comparison may fall short, as in the claim `selfconsis-comparable-auroc` (config/paper/claims.yaml)."""


class Sampled(NamedTuple):
    """One sampling of the evaluation: the study's own numbers, and tables of its replicates. A comparison is read from
    the first table that has both of its rows."""

    study: Reader
    gathered: Sequence[pd.DataFrame] = ()


def headline_rows(
    methods: Sequence[str],
    paper: Reader,
    ours: Sampled,
    second: Sampled | None = None,
    other: Sequence[pd.DataFrame] = (),
    temperature: float | None = None,
) -> pd.DataFrame:
    """The differences behind every headline, positive where they speak for it.

    Args:
        methods: The methods of the study; comparisons with others are left out.
        paper: The paper's numbers.
        ours: The evaluation's own sampling.
        second: Another sampling of the same policies.
        other: Tables of a study of a language model (`values_of`).
        temperature: Temperature of the other sampling.

    Returns:
        The columns claim, method, baseline ("" for chance), metric, dataset; paper, language_model: the differences,
        shares for accuracies; `NUMBERS`: over replicates the mean difference with the interval of Student's t, or
        without replicates the study's own one with its paired bootstrap interval; at_chance: the methods of the
        comparison whose confidence is at chance; baseline_auroc and paper_baseline_auroc, where confidences are
        compared; word, the verdict on the whole claim, which adds that of the second sampling where it differs; and the
        `NUMBERS` of the second sampling, with `SECOND` before their names. NaN where there is no number.
    """
    rows = []
    for title, pairs in HEADLINES.items():
        tolerance = TOLERANCE.get(title, 0.0)
        chosen = [pair for pair in pairs if {pair.method, pair.baseline} - {CHANCE} <= {*methods}]
        differences = [_row(pair, paper, ours, tolerance) for pair in chosen]
        for row, pair in zip(differences, chosen, strict=True):
            beside = difference(pair, other)
            row["language_model"] = np.nan if beside is None else float(beside[0])
        word = word_of(differences, tolerance)
        if second:
            again = [_row(pair, paper, second, tolerance) for pair in chosen]
            if (other_word := first_word(again, tolerance)) != first_word(differences, tolerance):
                first, semicolon, rest = word.partition(";")
                word = f"{first} (at temperature {temperature:g}: {other_word}){semicolon}{rest}"
            for row, of_second in zip(differences, again, strict=True):
                row |= {f"{SECOND}{name}": of_second[name] for name in NUMBERS}
        rows += [{"claim": title, **row, "word": word} for row in differences]
    return pd.DataFrame(rows)


def _row(pair: Pair, paper: Reader, of: Sampled, tolerance: float) -> dict:
    gathered = [frame for frame in of.gathered if frame.shape[1] >= _FEW]
    joint = difference(pair, gathered)
    level = of.study.level
    if joint is None:
        numbers, chance = _alone(pair, of.study), [n for n in pair.confident if of.study.degenerate(n, pair.case)]
    else:
        numbers, chance = over(joint, level, tolerance), at_chance(pair, gathered, level)
    row = {**pair._asdict(), "paper": _alone(pair, paper)[0], **dict(zip(NUMBERS, numbers, strict=True))}
    aurocs = [np.nan, np.nan]
    if pair.confident:
        baseline = rows_of(gathered, pair.dataset, (pair.baseline, "auroc"))
        own = _read(of.study, pair) if baseline is None else float(baseline[0].mean())
        aurocs = [own, _read(paper, pair)]
    return (
        row
        | {"at_chance": ", ".join(chance)}
        | dict(zip(("baseline_auroc", "paper_baseline_auroc"), aurocs, strict=True))
    )


def word_of(rows: Sequence[Mapping], tolerance: float = 0.0) -> str:
    """The verdict on a claim by the intervals of its differences.

    It is "yes" if all of them lie above zero (or above what the claim tolerates), "no" if one lies below, and otherwise
    "undecided". A "yes" over baselines at chance, or nearer to it than the paper's, says so. Where the verdicts differ
    between baselines, or else between metrics, they are listed. An undecided claim also names the metrics in which the
    intervals exclude a lead as large as the paper's.
    """
    if not all(row["lower"] < row["upper"] for row in rows):
        return f"{UNDECIDED}, without intervals"
    word, chance = first_word(rows, tolerance), _chance(rows)
    near = {
        row["baseline"] for row in rows if row["baseline_auroc"] - 0.5 < _NEAR * (row["paper_baseline_auroc"] - 0.5)
    }
    if word == YES and chance:
        return f"{YES}, but {' and '.join(chance)} {'is' if len(chance) == 1 else 'are'} at chance"
    if word == YES and near:
        return f"{YES}, over {'baselines' if len(near) > 1 else 'a baseline'} nearer to chance than the paper's"
    said = word
    labels = {CHANCE: "chance", **{name: method.label for name, method in METHODS.items()}}
    by_baseline, by_metric = (_parts(rows, key) for key in ("baseline", "metric"))
    for parts, names in ((by_baseline, labels), (by_metric, NAMES)):
        each = {name: _part_word(part, tolerance) for name, part in parts.items()}
        if len({*each.values()}) > 1:
            said += f" ({', '.join(f'{names[name]} {verdict}' for name, verdict in each.items())})"
            break
    excluded = {name: all(row["paper"] > row["upper"] for row in part) for name, part in by_metric.items()}
    if word == UNDECIDED and any(excluded.values()):
        smaller = [NAMES[name] for name, is_excluded in excluded.items() if is_excluded]
        where = "" if all(excluded.values()) else f" in {' and '.join(smaller)}"
        said += f"; the lead is smaller than the paper's{where}"
    return said


def _parts(rows: Sequence[Mapping], key: str) -> dict[str, list[Mapping]]:
    return {row[key]: [other for other in rows if other[key] == row[key]] for row in rows}


def _chance(rows: Sequence[Mapping]) -> list[str]:
    """The labels of the methods whose confidence is at chance."""
    names = dict.fromkeys(name for row in rows for name in row["at_chance"].split(", ") if name)
    return [METHODS[name].label for name in names]


def _part_word(rows: Sequence[Mapping], tolerance: float) -> str:
    word = first_word(rows, tolerance)
    return f"{word} but at chance" if word == YES and _chance(rows) else word


def first_word(rows: Sequence[Mapping], tolerance: float) -> str:
    """The verdict by the intervals alone: `YES`, `NO` or `UNDECIDED`."""
    if any(row["upper"] < -tolerance for row in rows):
        return NO
    return YES if all(row["lower"] > -tolerance for row in rows) else UNDECIDED


def values_of(frame: pd.DataFrame | None, prefix: str) -> pd.DataFrame:
    """The values of a table by data set, method and metric, a column for each replicate; no rows if there is none."""
    values = (pd.DataFrame(columns=KEYS) if frame is None else frame).set_index(KEYS)
    return values[[name for name in values if name.startswith(prefix)]]


def rows_of(frames: Sequence[pd.DataFrame], dataset: str, *rows: tuple[str, str]) -> list[np.ndarray] | None:
    """The values of rows (method and metric), float64 [replicates] each, in the first table that has them all."""
    for frame in frames:
        if all((dataset, *row) in frame.index for row in rows):
            return [frame.loc[(dataset, *row)].to_numpy(np.float64) for row in rows]
    return None


def difference(pair: Pair, frames: Sequence[pd.DataFrame]) -> np.ndarray | None:
    """The difference in every replicate, float64 [replicates], in the first table that has both of its rows."""
    baselines = [] if pair.baseline == CHANCE else [pair.baseline]
    rows = rows_of(frames, pair.dataset, *((name, pair.metric) for name in (pair.method, *baselines)))
    return None if rows is None else gain(pair.metric, rows[0] - (rows[1] if baselines else 0.5))


def judged(values: pd.DataFrame, refused: Collection[int], level: float = 0.95) -> pd.DataFrame:
    """Test all comparisons of the headlines as one family, without and with replicates that the conditions refuse.

    Args:
        values: The numbers of main tables by `KEYS`, a column for each replicate, named by its number.
        refused: The numbers of the refused replicates.
        level: Coverage of the intervals, of Student's t.

    Returns:
        The columns claim, method, baseline ("" for chance), metric, dataset; value, lower and upper of the mean
        difference, p, and p_holm, adjusted for all comparisons (Holm 1979); all_value, all_lower and all_upper of all
        replicates together; and the difference in each, replicate_N, or refused_N.
    """
    taking = [number for number in values if number not in refused]
    names = {number: f"{'refused' if number in refused else 'replicate'}_{number}" for number in values}
    rows = []
    for claim, pairs in HEADLINES.items():
        for pair in pairs:
            every = pd.Series(difference(pair, [values]), values.columns)
            ours, of_all = (over_replicates(of.to_numpy(), level, "") for of in (every[taking], every))
            row = {"claim": claim, **pair._asdict(), "value": ours.value, "lower": ours.lower, "upper": ours.upper}
            row |= {"p": ours.p, "all_value": of_all.value, "all_lower": of_all.lower, "all_upper": of_all.upper}
            rows.append(row | every.rename(names).to_dict())
    found = pd.DataFrame(rows)
    found.insert(found.columns.get_loc("p") + 1, "p_holm", holm(found["p"]))
    return found


def over(values: np.ndarray, level: float, tolerance: float = 0.0) -> tuple[float, float, float, int, int]:
    """The `NUMBERS` of a difference in every replicate, float64 [replicates]."""
    margin = over_replicates(values, level, "")
    return margin.value, margin.lower, margin.upper, values.size, int((values > -tolerance).sum())


def _read(reader: Reader, pair: Pair) -> float:
    """The AUROC of the baseline; NaN where the reader has none."""
    try:
        return reader.read(Quantity("auroc", pair.baseline, pair.case)).value
    except NotAssessableError:
        return np.nan


def _alone(pair: Pair, reader: Reader) -> tuple[float, ...]:
    """The `NUMBERS` of the difference in one study, or in the paper, where the interval is the number itself."""
    try:
        if pair.baseline == CHANCE:
            estimate = reader.read(Quantity(pair.metric, pair.method, pair.case)) - 0.5
        else:
            estimate = reader.difference(pair.metric, pair.method, pair.baseline, pair.case)
    except NotAssessableError:
        return (np.nan,) * len(NUMBERS)
    estimate = gain(pair.metric, estimate)
    return estimate.value, *estimate.interval(reader.level), np.nan, np.nan


def at_chance(pair: Pair, frames: Sequence[pd.DataFrame], level: float) -> list[str]:
    """Methods whose AUROC over replicates has an interval that holds one half, or whose mean confidence is constant."""
    names = ("mean_confidence", "auroc")
    rows = {method: rows_of(frames, pair.dataset, *((method, name) for name in names)) for method in pair.confident}
    return [name for name, both in rows.items() if both and degenerate(*(over(row, level)[1:3] for row in both))]


class Unread(Reader):
    """A source without numbers, for use where only gathered replicates are read."""

    def read(self, quantity: Quantity) -> Estimate:
        raise NotAssessableError("nothing but replicates is read")
