"""Paired tests of differences between methods, on shared resamples of the questions."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from cocal.errors import ContractError
from cocal_study.config.methods import scored_method
from cocal_study.cubes.better import BETTER
from cocal_study.cubes.cells import degenerate, policy_cell
from cocal_study.cubes.resamples import Key, Resamples
from cocal_study.evidence.estimates import Estimate

COMPARED = ("accuracy", "ece", "auroc")
"""The metrics whose differences are tested; mean confidence is neither good nor bad."""
IN_TABLE = ("accuracy", "ece", "brier", "log_loss", "auroc")
"""The metrics of tables/comparisons, with proper scores beside the ECE, which a constant confidence may win."""
OURS = ("cocal-binary", "cocal-group")
SIGNIFICANT = 0.05
"""Level of the tests, after Holm's adjustment."""
COLUMNS = ("dataset", "method", "baseline", "metric")
"""The columns that identify a comparison."""


def estimate(resamples: Resamples, key: Key, metric: str) -> Estimate:
    """One metric of one cell with its resamples. Raises ContractError if there is no such cell, or the file is older
    than the metric."""
    if key not in resamples.places:
        where = ", ".join(f"{name} {value}" for name, value in vars(key).items() if value not in (-1, ""))
        raise ContractError(f"{resamples.source}: there is nothing for {where}; run its predictions")
    data = resamples.data
    if metric not in data.indexes["metric"]:
        raise ContractError(f"{resamples.source}: holds no {metric}; make it anew with `cocal metrics --resamples`")
    place, column = resamples.places[key], data.indexes["metric"].get_loc(metric)
    by_seed = data["by_seed"].to_numpy()[place, :, column]
    return Estimate(
        float(data["value"].to_numpy()[place, column]),
        data["resampled"].to_numpy()[place, column],
        by_seed if not np.isnan(by_seed).all() else by_seed[:0],
        str(data["questions"].to_numpy()[place]),
    )


def final_key(method: str, step: int, dataset: str) -> Key:
    """The cell of a method in a table of policies at `step`."""
    algorithm, policy_step = policy_cell(method, step)
    return Key(method, algorithm, policy_step, dataset)


def at_chance(resamples: Resamples, key: Key) -> bool:
    """True if the confidence of a method is constant or at chance; False without resamples. Raises ContractError if
    there is no such cell."""
    if not resamples.data.sizes["resample"]:
        return False
    estimates = (estimate(resamples, key, metric) for metric in ("mean_confidence", "auroc"))
    over_questions = (Estimate(number.value, number.resampled) for number in estimates)  # as in the tables
    return degenerate(*(number.interval(resamples.level) for number in over_questions))


def pairs_in_table(methods: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs in tables/comparisons: each variant of CoCal with each baseline, and the two variants once."""
    ours = [name for name in OURS if name in methods]
    return [
        (method, baseline)
        for place, method in enumerate(ours)
        for baseline in methods
        if baseline not in ours[: place + 1]
    ]


def table_of(resamples: Resamples, methods: Sequence[str], step: int, datasets: Sequence[str]) -> pd.DataFrame:
    """The differences of tables/comparisons on some data sets and macro averages, as `compare` returns them, with the
    adjusted p-values (column p_holm), and the column degenerate, which is true where the metric is one of confidence
    and one of the two confidences is degenerate."""
    pairs = [
        (final_key(method, step, dataset), final_key(baseline, step, dataset))
        for dataset in datasets
        for method, baseline in pairs_in_table(methods)
    ]
    known = [name for name in IN_TABLE if name in resamples.data.indexes["metric"]]
    table = with_holm(compare(resamples, pairs, metrics=known))
    flagged = {(key.dataset, key.method) for pair in pairs for key in pair if at_chance(resamples, key)}
    rows = zip(table["dataset"], table["method"], table["baseline"], table["metric"], strict=True)
    return table.assign(
        degenerate=[
            metric != "accuracy" and any((where, name) in flagged for name in both) for where, *both, metric in rows
        ]
    )


def same_responses(first: Key, second: Key) -> bool:
    """True if two cells score the same responses, so that their accuracies are one number."""
    origin, other = ((scored_method(key.method).prompt_format, key.algorithm, key.step) for key in (first, second))
    return origin == other


def compare(resamples: Resamples, pairs: Iterable[tuple[Key, Key]], metrics: Sequence[str] = COMPARED) -> pd.DataFrame:
    """Test the difference of every metric between the methods of every pair.

    Whole questions are resampled, and both methods share the resamples. So methods are paired on their responses where
    these are the same, and on the questions otherwise. Accuracies of the same responses are not compared. Raises
    ContractError if there is no such cell, or the methods answer different questions.

    Args:
        pairs: A method and its baseline, as cells of one dataset.
        metrics: Names of resampled metrics.

    Returns:
        Columns dataset, method, baseline, metric, paired ("responses" or "questions"), value (method minus baseline),
        lower, upper, p, and seed_sd, the standard deviation of the difference over companion seeds (NaN without seeds,
        and for accuracies, since the seeds score the same responses). NaN where a metric is undefined.
    """
    rows = []
    for first, second in pairs:
        same = same_responses(first, second)
        for metric in metrics:
            if same and metric == "accuracy":
                continue
            difference = estimate(resamples, first, metric) - estimate(resamples, second, metric)
            seed_sd = float("nan") if metric == "accuracy" else difference.seed_sd
            cell = (first.dataset, first.method, second.method, metric, "responses" if same else "questions")
            interval = difference.interval(resamples.level)
            rows.append((*cell, difference.value, *interval, difference.p_value(), seed_sd))
    return pd.DataFrame(rows, columns=[*COLUMNS, "paired", "value", "lower", "upper", "p", "seed_sd"])


def separable_from_best(
    resamples: Resamples, values: pd.DataFrame, step: int, level: float = 0.05
) -> dict[tuple[str, str, str], str]:
    """Tell which values of a table (columns dataset, method, metric, value) differ significantly from the best one of
    their column: "best" (which equal values share), "yes" or "no", by dataset, method and metric of `COMPARED`.
    Undefined values are left out.

    Each method is tested against the best of the column, with p-values adjusted within the column (`with_holm`). The
    best method is that with the best value, the first of several; because it is chosen on the same responses, the tests
    call slightly too many of the others separable.
    """
    words: dict[tuple[str, str, str], str] = {}
    for (dataset, metric), column in values.groupby(["dataset", "metric"], sort=False):
        defined = column.dropna(subset="value")
        if metric not in COMPARED or defined.empty:
            continue
        place = defined["value"].idxmax() if BETTER[metric] == "higher" else defined["value"].idxmin()
        best, highest = defined.loc[place, ["method", "value"]]
        pairs = [
            (final_key(best, step, dataset), final_key(name, step, dataset))
            for name in defined["method"]
            if name != best
        ]
        tests = with_holm(compare(resamples, pairs, metrics=(metric,))).set_index("baseline")["p_holm"]
        for name, value in zip(defined["method"], defined["value"], strict=True):
            separable = "yes" if tests.get(name, 1.0) < level else "no"
            words[dataset, name, metric] = "best" if np.isclose(value, highest) else separable
    return words


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Adjust p-values of one family for multiplicity (Holm 1979); NaN values belong to no family and stay.

    The i-th smallest of m values is multiplied by m - i + 1, and no adjusted value is below that of a smaller one.
    """
    p = np.asarray(p_values, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    adjusted = np.full(p.shape, np.nan)
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors))
    return adjusted


def with_holm(compared: pd.DataFrame, family: Sequence[str] = ("dataset", "metric")) -> pd.DataFrame:
    """Add the column p_holm, p-values that are adjusted within each family. A family is one column of a table: B
    resamples give no p-value below 2 / (B + 1), so a whole table as one family could reject nothing."""
    return compared.assign(p_holm=compared.groupby(list(family), sort=False)["p"].transform(holm))
