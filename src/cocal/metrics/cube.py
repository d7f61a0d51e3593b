"""All metrics of a study as one labelled array, selectable by backbone, policy, dataset, method and seed.

Select with a mapping, such as `cube.sel({"method": "verbal", "seed": "mean"})`, since the keyword `method` of
`cube.sel` has another meaning in xarray.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from cocal.config.evaluation import MetricSettings
from cocal.config.methods import METHODS
from cocal.errors import ContractError
from cocal.metrics.bootstrap import centred_interval, generator_for, resampled_metrics
from cocal.metrics.calibration import METRICS, evaluate
from cocal.metrics.common import UNSEEDED
from cocal.metrics.quality import RATES, rates_of
from cocal.metrics.scores import LEAST, MOST, Sample, scores
from cocal.runtime.progress import Progress
from cocal.store.contracts import PREDICTIONS
from cocal.store.provenance import digest

MEAN = "mean"
"""Seed label of the average over the companion seeds, and the only seed label of a method without seeds."""

_SWEPT = ("source_step", "validation_step", "layer", "pooling")
"""The dimensions that a sweep can have: what companions of one method learnt from and which states they read."""
_DIMENSIONS = ("backbone", "algorithm", "step", *_SWEPT, "dataset", "method", "seed")
_NOT_SWEPT = {"source_step": -1, "validation_step": -1, "layer": -1, "pooling": ""}
"""The labels of these dimensions if they are not swept."""


class _Cell(NamedTuple):
    """One method, with one choice of the swept dimensions, on the responses of one policy."""

    backbone: str
    algorithm: str
    step: int
    source_step: int
    validation_step: int
    layer: int
    pooling: str
    method: str

    def __str__(self) -> str:
        swept = "".join(
            f", {name.replace('_', ' ')} {label}"
            for name, none in _NOT_SWEPT.items()
            if (label := getattr(self, name)) != none
        )
        return f"method {self.method!r} (backbone {self.backbone}, {self.algorithm}, step {self.step}{swept})"


@dataclass(frozen=True)
class _Evaluation:
    """The metrics of a cell on one dataset, or their macro average over several.

    Attributes:
        seeds: Companion seeds, or (UNSEEDED,).
        values: float64 [seeds, metrics], metrics of all responses.
        resampled: float64 [seeds, resamples, metrics], metrics of the resamples.
        n: Number of responses, the same for all seeds.
        n_valid: int64 [seeds], number of responses with a valid confidence.
        rates: float64 [seeds, rates], in the order of `RATES`.
        questions: Digest of the questions, which tells evaluations that share their resamples.
    """

    seeds: tuple[int, ...]
    values: np.ndarray
    resampled: np.ndarray
    n: int
    n_valid: np.ndarray
    rates: np.ndarray
    questions: str


@dataclass(frozen=True)
class Evaluated:
    """The metrics of all cells, with those of their resamples, before they are arranged.

    Attributes:
        cells: The evaluations by cell and by dataset or macro average.
        coordinates: The labels of each dimension of the cube.
        level: Confidence level of the intervals.
        sweep: The dimensions that are swept.
    """

    cells: dict[tuple[_Cell, str], _Evaluation]
    coordinates: dict[str, list]
    level: float
    sweep: tuple[str, ...]

    def cube(self) -> xr.Dataset:
        """Arrange values and intervals as `metric_cube` describes."""
        cube = _assemble(self.cells, self.coordinates, self.level)
        return cube.isel({name: 0 for name in _SWEPT if name not in self.sweep}, drop=True)


def metric_cube(
    predictions: pd.DataFrame,
    settings: MetricSettings,
    groups: Mapping[str, Sequence[str]] | None = None,
    seeds: Sequence[int] | None = None,
    sweep: Sequence[str] = (),
    metrics: Sequence[str] = METRICS,
) -> xr.Dataset:
    """Compute metrics with bootstrap intervals (section 5, evaluation protocol; appendix A.2).

    See `evaluate_cells` for the arguments, for how the metrics are computed, and for the errors.

    Returns:
        A data set with the dimensions backbone, algorithm, step, those of the sweep (source_step, validation_step and
        layer int64, pooling text; -1, -1, -1 and "" for methods without a companion), dataset (macro averages last),
        method, seed ("mean", then the seeds) and metric (those of `metrics`), and the variables

        - `value`, `lower`, `upper`: float64 in all dimensions, NaN if absent or undefined. The interval leaves out the
          resamples in which the metric is undefined.
        - `seed_sd`: float64 without `seed`, standard deviation over the seeds (n - 1), NaN without seeds.
        - `n`, `n_valid`: int64 without `metric`, numbers of responses and of valid confidences, 0 if absent. `mean`
          holds the minimum over the seeds, a macro average the sum over the datasets.
        - `valid_rate`, `answered_rate`, `decided_rate`, `truncation_rate`, `p_true_mass`, `exact_match_accuracy`:
          float64 without `metric` (`cocal.metrics.quality.RATES`), NaN if they do not apply. `mean` and macro averages
          hold unweighted means.
    """
    return evaluate_cells(predictions, settings, groups, seeds, sweep, metrics).cube()


def evaluate_cells(
    predictions: pd.DataFrame,
    settings: MetricSettings,
    groups: Mapping[str, Sequence[str]] | None = None,
    seeds: Sequence[int] | None = None,
    sweep: Sequence[str] = (),
    metrics: Sequence[str] = METRICS,
) -> Evaluated:
    """Compute the metrics of every cell, on its responses and on the resamples.

    A metric is first computed for each dataset and seed. The seed label `mean` holds the mean over the seeds, and a
    macro average is the unweighted mean over its datasets; it is absent if one of them is. The intervals come from
    resampling the questions of each dataset. All methods, companions and seeds that answer the same questions share
    the resamples; datasets are resampled independently.

    Args:
        predictions: Table in the contract `PREDICTIONS`, in any order.
        settings: Bins, resamples, level and seed.
        groups: The datasets of each macro average, by its label in the `dataset` dimension.
        seeds: Companion seeds that every method with seeds must have; by default all that occur.
        sweep: Dimensions among source_step, validation_step, layer and pooling in which a method's companions differ.
        metrics: Names of the metrics: the paper's `METRICS`, or `ALL`, which take several times as long.

    Raises:
        ContractError: if the table breaks its contract, a method lacks seeds, the seeds of a method differ in their
            responses, a group has the name of a dataset, or companions of a method on one policy differ in a dimension
            that is not swept.
    """
    frame = PREDICTIONS.check(predictions, "predictions")
    groups = dict(groups or {})
    datasets = sorted(frame["dataset"].unique())
    clash = [name for name in datasets if name in groups]
    if clash:
        raise ContractError(f"predictions: group {clash[0]!r} has the name of a dataset; rename the group")
    present = sorted(int(seed) for seed in frame["seed"].unique() if seed != UNSEEDED)
    expected = tuple(int(seed) for seed in seeds) if seeds is not None else tuple(present)

    for dimension in _SWEPT:
        if dimension not in sweep:
            frame = _one_label(frame, dimension, [d for d in _SWEPT if d != dimension and d in sweep])
    evaluations: dict[tuple[_Cell, str], _Evaluation] = {}
    progress = Progress("prediction", len(frame))
    for dataset, part in frame.groupby("dataset", sort=True):
        for cell, evaluation in _evaluate_dataset(str(dataset), part, settings, expected, metrics):
            evaluations[cell, str(dataset)] = evaluation
        progress.add(len(part), str(dataset))
    cells = sorted({cell for cell, _ in evaluations})
    for group, members in groups.items():
        for cell in cells:
            parts = [evaluations[cell, member] for member in members if (cell, member) in evaluations]
            if len(parts) == len(members):
                evaluations[cell, group] = _macro(parts)

    known = list(METHODS)
    methods = sorted({cell.method for cell in cells}, key=lambda m: (known.index(m) if m in known else len(known), m))
    coordinates = {
        "backbone": sorted({cell.backbone for cell in cells}),
        "algorithm": sorted({cell.algorithm for cell in cells}),
        "step": sorted({cell.step for cell in cells}),
        **{name: sorted({getattr(cell, name) for cell in cells}) for name in _SWEPT},
        "dataset": [*datasets, *groups],
        "method": methods,
        "seed": [MEAN, *map(str, expected)],
        "metric": list(metrics),
    }
    return Evaluated(evaluations, coordinates, settings.level, tuple(sweep))


def _one_label(frame: pd.DataFrame, dimension: str, sweep: Sequence[str]) -> pd.DataFrame:
    """Replace the labels of `dimension` by one label; raise an error if a method has several labels on one policy.

    Args:
        sweep: The dimensions that are swept.
    """
    for key, labels in frame.groupby(["backbone", "algorithm", "step", "method", *sweep], sort=True)[dimension]:
        if len(found := sorted(labels.unique())) > 1:
            backbone, algorithm, step, method = key[:4]
            raise ContractError(
                f"predictions: method {method!r} (backbone {backbone}, {algorithm}, step {step}) has companions of "
                f"several {dimension.replace('_', ' ')}s, {_list(found)}; leave the files of sweeps out, or ask for a "
                f"sweep's cube (cocal metrics --sweep {dimension})"
            )
    return frame.assign(**{dimension: _NOT_SWEPT[dimension]})


def _evaluate_dataset(
    dataset: str, part: pd.DataFrame, settings: MetricSettings, expected: tuple[int, ...], metrics: Sequence[str]
) -> Iterator[tuple[_Cell, _Evaluation]]:
    """Evaluate every cell of one dataset; cells that answer the same questions share their resamples."""
    part = part.assign(question=pd.factorize(part["question_id"], sort=True)[0])
    by_questions: dict[bytes, list[tuple[_Cell, list[pd.DataFrame], list[Sample]]]] = {}
    sizes: dict[bytes, int] = {}
    for key, rows in part.groupby(list(_Cell._fields), sort=True):
        cell = _Cell(*(part.item() if isinstance(part, np.generic) else part for part in key))
        tables = _seed_tables(cell, dataset, rows, expected)
        questions, index = np.unique(tables[0]["question"].to_numpy(), return_inverse=True)
        samples = [Sample(index, t["confidence"].to_numpy(), t["correct"].to_numpy()) for t in tables]
        by_questions.setdefault(questions.tobytes(), []).append((cell, tables, samples))
        sizes[questions.tobytes()] = len(questions)
    for key, members in by_questions.items():
        resampled = resampled_metrics(
            [sample for _, _, samples in members for sample in samples],
            sizes[key],
            bins=settings.bins,
            resamples=settings.resamples,
            generator=generator_for(settings.seed, dataset),
            names=metrics,
        )
        start = 0
        for cell, tables, _ in members:
            yield cell, _evaluation(tables, resampled[start : start + len(tables)], settings.bins, metrics)
            start += len(tables)


def _seed_tables(cell: _Cell, dataset: str, rows: pd.DataFrame, expected: tuple[int, ...]) -> list[pd.DataFrame]:
    """Split the rows by seed and sort them by response; check that all expected seeds, or only UNSEEDED, are there."""
    where = f"predictions: {cell} on {dataset}"
    found = {int(seed): table for seed, table in rows.sort_values("response_id").groupby("seed", sort=True)}
    wanted = (UNSEEDED,) if set(found) == {UNSEEDED} else expected
    if set(found) != set(wanted):
        missing = [seed for seed in wanted if seed not in found]
        extra = [seed for seed in found if seed not in wanted]
        problem = f"lacks seed(s) {_list(missing)}" if missing else f"has unexpected seed(s) {_list(extra)}"
        raise ContractError(f"{where} {problem}; a method has all of {_list(expected)} or only {UNSEEDED}")
    tables = [found[seed] for seed in wanted]
    shared = ["question", "response_id", "correct", "truncated"]
    for table in tables[1:]:
        if not all(np.array_equal(table[name], tables[0][name]) for name in shared):
            seed = int(table["seed"].iloc[0])
            raise ContractError(f"{where}: seed {seed} has other responses than seed {wanted[0]}; predict both anew")
    return tables


def _evaluation(tables: list[pd.DataFrame], resampled: np.ndarray, bins: int, metrics: Sequence[str]) -> _Evaluation:
    arrays = [[t[name].to_numpy() for name in ("confidence", "valid", "correct")] for t in tables]
    values = [_values(*columns, bins, metrics) for columns in arrays]
    valid = np.array([valid for _, valid, _ in arrays])
    return _Evaluation(
        tuple(int(t["seed"].iloc[0]) for t in tables),
        np.array(values),
        resampled,
        valid.shape[1],
        valid.sum(axis=1),
        np.array([list(rates_of(table).values()) for table in tables]),
        digest(sorted(tables[0]["question_id"].unique())),
    )


def _values(
    confidence: np.ndarray, valid: np.ndarray, correct: np.ndarray, bins: int, metrics: Sequence[str]
) -> list[float]:
    found = evaluate(confidence, valid, correct, bins)
    if metrics != METRICS:
        found |= scores(np.where(valid, confidence, np.nan), correct, bins)
    return [found[name] for name in metrics]


def _macro(parts: Sequence[_Evaluation]) -> _Evaluation:
    """Average over datasets without weights; their resamples are independent of each other."""
    return _Evaluation(
        parts[0].seeds,
        np.mean([part.values for part in parts], axis=0),
        np.mean([part.resampled for part in parts], axis=0),
        sum(part.n for part in parts),
        np.sum([part.n_valid for part in parts], axis=0),
        np.mean([part.rates for part in parts], axis=0),
        digest([part.questions for part in parts]),
    )


def _assemble(
    evaluations: Mapping[tuple[_Cell, str], _Evaluation], coordinates: dict[str, list], level: float
) -> xr.Dataset:
    position = {name: {label: i for i, label in enumerate(labels)} for name, labels in coordinates.items()}
    shape = tuple(len(coordinates[name]) for name in _DIMENSIONS)
    value, lower, upper = (np.full((*shape, len(coordinates["metric"])), np.nan) for _ in range(3))
    n, n_valid = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    rates = np.full((*shape, len(RATES)), np.nan)
    seed_sd = np.full((*shape[:-1], len(coordinates["metric"])), np.nan)

    ranges = [[bounds[name] for name in coordinates["metric"]] for bounds in (LEAST, MOST)]

    for (cell, dataset), one in evaluations.items():
        at = tuple(position[name][dataset if name == "dataset" else getattr(cell, name)] for name in _DIMENSIONS[:-1])
        seeded = one.seeds != (UNSEEDED,)
        rows = [0, *(position["seed"][str(seed)] for seed in one.seeds)] if seeded else [0]

        def with_mean(values: np.ndarray, average=np.mean, seeded=seeded) -> np.ndarray:
            return np.concatenate([[average(values, axis=0)], values]) if seeded else values

        estimates = with_mean(one.values)
        resampled = np.moveaxis(with_mean(one.resampled), 1, -1)
        value[at][rows] = estimates
        lower[at][rows], upper[at][rows] = centred_interval(estimates, resampled, level, *ranges)
        n[at][rows] = one.n
        n_valid[at][rows] = with_mean(one.n_valid, np.min)
        rates[at][rows] = with_mean(one.rates)
        if len(one.seeds) > 1:
            seed_sd[at] = one.values.std(axis=0, ddof=1)

    full = (*_DIMENSIONS, "metric")
    return xr.Dataset(
        {
            "value": (full, value),
            "lower": (full, lower),
            "upper": (full, upper),
            "seed_sd": ((*_DIMENSIONS[:-1], "metric"), seed_sd),
            "n": (_DIMENSIONS, n),
            "n_valid": (_DIMENSIONS, n_valid),
            **{name: (_DIMENSIONS, rates[..., place]) for place, name in enumerate(RATES)},
        },
        coords=coordinates,
    )


def _list(items: Sequence[object]) -> str:
    return ", ".join(map(str, items)) or "(none)"
