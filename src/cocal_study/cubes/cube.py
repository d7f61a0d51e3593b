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

from cocal.errors import ContractError
from cocal.metrics.bootstrap import centred_interval, generator_for, resampled_metrics
from cocal.metrics.calibration import METRICS, evaluate, pairs_within
from cocal.metrics.scores import LEAST, MOST, WITHIN, Sample, scores
from cocal.metrics.settings import MetricSettings
from cocal.runtime.progress import Progress
from cocal.store.provenance import digest
from cocal_study.config.methods import METHODS
from cocal_study.cubes.cells import RATES, rates_of
from cocal_study.store.contracts import PREDICTIONS

MEAN = "mean"
"""Seed label of the average over the companion seeds, and the only seed label of a method without seeds."""
UNSEEDED = -1
"""Seed of a method without seeds in a predictions table."""

_NOT_SWEPT = {"source_step": -1, "validation_step": -1, "layer": -1, "pooling": ""}
"""Dimensions that a sweep can have (what companions of one method learnt from, and the states that they read), with
their labels where they are not swept."""


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
        labels = {name: getattr(self, name) for name, none in _NOT_SWEPT.items() if getattr(self, name) != none}
        swept = "".join(f", {name.replace('_', ' ')} {label}" for name, label in labels.items())
        return f"method {self.method!r} (backbone {self.backbone}, {self.algorithm}, step {self.step}{swept})"


@dataclass(frozen=True)
class _Evaluation:
    """The metrics of a cell on one dataset, or their macro average over several."""

    seeds: tuple[int, ...]
    """Seeds of the companions, or (UNSEEDED,)."""
    values: np.ndarray
    """float64 [seeds, metrics], of all responses."""
    resampled: np.ndarray
    """float64 [seeds, resamples, metrics], of the resamples."""
    n: int
    """Number of responses, the same for all seeds."""
    n_valid: np.ndarray
    """int64 [seeds], numbers of valid confidences."""
    rates: np.ndarray
    """float64 [seeds, rates], the `RATES`."""
    questions: str
    """Digest of the questions; evaluations that share it share their resamples."""

    @classmethod
    def average(cls, parts: Sequence["_Evaluation"], metrics: Sequence[str]) -> "_Evaluation":
        """The unweighted average over datasets, whose resamples are independent of each other. The AUROC within
        questions is averaged over those with several responses to a question."""
        averaged = ("values", "resampled", "rates")
        means = {name: np.mean([getattr(part, name) for part in parts], axis=0) for name in averaged}
        if WITHIN in metrics:
            at = metrics.index(WITHIN)
            several = [part for part in parts if not np.isnan(part.values[:, at]).any()]
            for name in ("values", "resampled") if several else ():
                means[name][..., at] = np.mean([getattr(part, name)[..., at] for part in several], axis=0)
        n, n_valid = sum(part.n for part in parts), np.sum([part.n_valid for part in parts], axis=0)
        questions = digest([part.questions for part in parts])
        return cls(parts[0].seeds, n=n, n_valid=n_valid, questions=questions, **means)


@dataclass(frozen=True)
class Evaluated:
    """The metrics of each cell on each dataset or macro average and of its resamples, before they are arranged in a
    cube, and the labels of each dimension of the cube, in its order."""

    cells: dict[tuple[_Cell, str], _Evaluation]
    coordinates: dict[str, list]
    level: float

    def cube(self, metrics: Sequence[str] | None = None) -> xr.Dataset:
        """Arrange values and intervals.

        Args:
            metrics: Names of the first metrics, if the cube does not hold all of them.

        Returns:
            A data set with the dimensions backbone, algorithm, step, those of the sweep (source_step, validation_step
            and layer int64, pooling text; -1, -1, -1 and "" for methods without a companion), dataset (macro averages
            last), method, seed ("mean", then the seeds) and metric, and the variables

            - `value`, `lower`, `upper`: float64 in all dimensions, NaN if absent or undefined. The interval leaves out
              the resamples in which the metric is undefined.
            - `seed_sd`: float64 without `seed`, standard deviation over the seeds (n - 1), NaN without seeds.
            - `n`, `n_valid`: int64 without `metric`, numbers of responses and of valid confidences, 0 if absent. `mean`
              holds the minimum over the seeds, a macro average the sum over the datasets.
            - `valid_rate`, `answered_rate`, `decided_rate`, `truncation_rate`, `p_true_mass`, `exact_match_accuracy`:
              float64 without `metric` (`cocal_study.cubes.cells.RATES`), NaN if they do not apply. `mean` and macro
              averages hold unweighted means.
        """
        coordinates = self.coordinates | {"metric": list(metrics or self.coordinates["metric"])}
        position = {name: {label: i for i, label in enumerate(labels)} for name, labels in coordinates.items()}
        *cell_names, _, metric = coordinates
        names = coordinates[metric]
        shape = tuple(map(len, coordinates.values()))
        value, lower, upper = (np.full(shape, np.nan) for _ in range(3))
        seed_sd = np.full((*shape[:-2], len(names)), np.nan)
        n, n_valid = (np.zeros(shape[:-1], dtype=np.int64) for _ in range(2))
        rates = np.full((*shape[:-1], len(RATES)), np.nan)
        ranges = [[bounds[name] for name in names] for bounds in (LEAST, MOST)]

        for (cell, dataset), evaluation in self.cells.items():
            labels = cell._asdict() | {"dataset": dataset}
            at = tuple(position[name][labels[name]] for name in cell_names)
            seeded = evaluation.seeds != (UNSEEDED,)
            rows = [0, *(position["seed"][str(seed)] for seed in evaluation.seeds)] if seeded else [0]

            def with_mean(values: np.ndarray, average=np.mean, seeded=seeded) -> np.ndarray:
                return np.concatenate([[average(values, axis=0)], values]) if seeded else values

            values = evaluation.values[:, : len(names)]
            estimates = with_mean(values)
            resampled = np.moveaxis(with_mean(evaluation.resampled[:, :, : len(names)]), 1, -1)
            value[at][rows] = estimates
            lower[at][rows], upper[at][rows] = centred_interval(estimates, resampled, self.level, *ranges)
            n[at][rows] = evaluation.n
            n_valid[at][rows] = with_mean(evaluation.n_valid, np.min)
            rates[at][rows] = with_mean(evaluation.rates)
            if len(evaluation.seeds) > 1:
                seed_sd[at] = values.std(axis=0, ddof=1)

        every = list(coordinates)
        return xr.Dataset(
            {
                **{name: (every, of) for name, of in (("value", value), ("lower", lower), ("upper", upper))},
                "seed_sd": ([*cell_names, metric], seed_sd),
                "n": (every[:-1], n),
                "n_valid": (every[:-1], n_valid),
                **{name: (every[:-1], rates[..., place]) for place, name in enumerate(RATES)},
            },
            coords=coordinates,
        )


def on_common_responses(predictions: pd.DataFrame) -> pd.DataFrame:
    """Invalidate a response's confidences in a table of predictions unless all methods evaluated on the same responses
    have a valid one for it. All rows are kept, so accuracy and n still count every response."""
    prompt_format = predictions["method"].map(lambda name: METHODS[name].prompt_format)
    response = [predictions[name] for name in ("backbone", "algorithm", "step", "dataset", "response_id")]
    common = predictions["valid"].groupby([prompt_format, *response], sort=False).transform("all")
    return predictions.assign(confidence=predictions["confidence"].where(common), valid=common)


def evaluate_cells(
    predictions: pd.DataFrame,
    settings: MetricSettings,
    groups: Mapping[str, Sequence[str]] | None = None,
    seeds: Sequence[int] | None = None,
    sweep: Sequence[str] = (),
    metrics: Sequence[str] = METRICS,
) -> Evaluated:
    """Compute the metrics of every cell, on its responses and on resamples (section 5, evaluation protocol; appendix
    A.2).

    A metric is first computed for each dataset and seed. The seed label `mean` holds the mean over the seeds, and a
    macro average is the unweighted mean over its datasets; it is absent if one of them is. The intervals come from
    resampling the questions of each dataset. All methods, companions and seeds that answer the same questions share the
    resamples; datasets are resampled independently. Raises ContractError if the table breaks its contract, a method
    lacks seeds, the seeds of a method differ in their responses, a group has the name of a dataset, or companions of a
    method on one policy differ in a dimension that is not swept.

    Args:
        predictions: Table in the contract `PREDICTIONS`, in any order.
        groups: The datasets of each macro average, by its label in the `dataset` dimension.
        seeds: Companion seeds that every method with seeds must have; by default all that occur.
        sweep: Dimensions among source_step, validation_step, layer and pooling in which a method's companions differ.
        metrics: Names of the metrics; others than `PAIRED` and `WITHIN` take several times as long.
    """
    frame = PREDICTIONS.check(predictions, "predictions")
    groups = groups or {}
    datasets = sorted(frame["dataset"].unique())
    if clash := [name for name in datasets if name in groups]:
        raise ContractError(f"predictions: group {clash[0]!r} has the name of a dataset; rename the group")
    present = sorted(set(frame["seed"].tolist()) - {UNSEEDED})
    expected = tuple(present if seeds is None else seeds)
    for dimension in _NOT_SWEPT:
        if dimension not in sweep:
            frame = _one_label(frame, dimension, [d for d in _NOT_SWEPT if d != dimension and d in sweep])

    evaluations: dict[tuple[_Cell, str], _Evaluation] = {}
    progress = Progress("prediction", len(frame))
    for dataset, part in frame.groupby("dataset"):
        for cell, evaluation in _evaluate_dataset(str(dataset), part, settings, expected, metrics):
            evaluations[cell, str(dataset)] = evaluation
        progress.add(len(part), str(dataset))
    cells = sorted({cell for cell, _ in evaluations})
    for group, members in groups.items():
        for cell in cells:
            parts = [evaluations[cell, member] for member in members if (cell, member) in evaluations]
            if len(parts) == len(members):
                evaluations[cell, group] = _Evaluation.average(parts, metrics)

    known = list(METHODS)
    coordinates = {
        name: sorted({getattr(cell, name) for cell in cells})
        for name in _Cell._fields
        if name not in _NOT_SWEPT or name in sweep
    }
    methods = coordinates.pop("method")  # those of the registry come first, in its order
    coordinates |= {
        "dataset": [*datasets, *groups],
        "method": sorted(methods, key=lambda name: (known.index(name) if name in known else len(known), name)),
        "seed": [MEAN, *map(str, expected)],
        "metric": list(metrics),
    }
    return Evaluated(evaluations, coordinates, settings.level)


def _one_label(frame: pd.DataFrame, dimension: str, sweep: Sequence[str]) -> pd.DataFrame:
    """Unify the labels of a dimension that is not swept; refuse a method that has several of them on one policy."""
    for key, labels in frame.groupby(["backbone", "algorithm", "step", "method", *sweep])[dimension]:
        if len(values := sorted(labels.unique())) > 1:
            backbone, algorithm, step, method = key[:4]
            raise ContractError(
                f"predictions: method {method!r} (backbone {backbone}, {algorithm}, step {step}) has companions of "
                f"several {dimension.replace('_', ' ')}s, {_list(values)}; leave the files of sweeps out, or ask for a "
                f"sweep's cube (cocal metrics --sweep {dimension})"
            )
    return frame.assign(**{dimension: _NOT_SWEPT[dimension]})


def _evaluate_dataset(
    dataset: str, part: pd.DataFrame, settings: MetricSettings, expected: tuple[int, ...], metrics: Sequence[str]
) -> Iterator[tuple[_Cell, _Evaluation]]:
    """Evaluate every cell of one dataset; cells that answer the same questions share their resamples."""
    by_questions: dict[tuple[str, ...], dict[_Cell, list[pd.DataFrame]]] = {}
    for key, rows in part.groupby(list(_Cell._fields)):
        cell = _Cell(*(label.item() if isinstance(label, np.generic) else label for label in key))
        tables = _seed_tables(cell, dataset, rows, expected)
        by_questions.setdefault(tuple(sorted(tables[0]["question_id"].unique())), {})[cell] = tables
    for questions, members in by_questions.items():
        places = pd.Index(questions)
        samples = [
            Sample(places.get_indexer(rows["question_id"]), rows["confidence"].to_numpy(), rows["correct"].to_numpy())
            for tables in members.values()
            for rows in tables
        ]
        resampled = resampled_metrics(
            samples,
            len(questions),
            bins=settings.bins,
            resamples=settings.resamples,
            generator=generator_for(settings.seed, dataset),
            names=metrics,
        )
        start = 0
        for cell, tables in members.items():
            evaluation = _Evaluation(
                seeds=tuple(int(table["seed"].iloc[0]) for table in tables),
                values=np.array([_values(table, settings.bins, metrics) for table in tables]),
                resampled=resampled[start : start + len(tables)],
                n=len(tables[0]),
                n_valid=np.array([table["valid"].sum() for table in tables]),
                rates=np.array([list(rates_of(table).values()) for table in tables]),
                questions=digest(list(questions)),
            )
            yield cell, evaluation
            start += len(tables)


def _seed_tables(cell: _Cell, dataset: str, rows: pd.DataFrame, expected: tuple[int, ...]) -> list[pd.DataFrame]:
    """The rows of each seed, sorted by response; all expected seeds are there, or only UNSEEDED."""
    where = f"predictions: {cell} on {dataset}"
    tables = {int(seed): table for seed, table in rows.sort_values("response_id").groupby("seed")}
    wanted = (UNSEEDED,) if set(tables) == {UNSEEDED} else expected
    if set(tables) != set(wanted):
        missing = [seed for seed in wanted if seed not in tables]
        extra = [seed for seed in tables if seed not in wanted]
        problem = f"lacks seed(s) {_list(missing)}" if missing else f"has unexpected seed(s) {_list(extra)}"
        raise ContractError(f"{where} {problem}; a method has all of {_list(expected)} or only {UNSEEDED}")
    shared = ["question_id", "response_id", "correct", "truncated"]
    first = tables[wanted[0]]
    for seed in wanted[1:]:
        if not np.array_equal(tables[seed][shared], first[shared]):
            raise ContractError(f"{where}: seed {seed} has other responses than seed {wanted[0]}; predict both anew")
    return [tables[seed] for seed in wanted]


def _values(table: pd.DataFrame, bins: int, metrics: Sequence[str]) -> list[float]:
    confidence, valid, correct = (table[name].to_numpy() for name in ("confidence", "valid", "correct"))
    values = evaluate(confidence, valid, correct, bins)
    if metrics != METRICS:
        values |= scores(np.where(valid, confidence, np.nan), correct, bins)
        _, question = np.unique(table["question_id"].to_numpy(str)[valid], return_inverse=True)
        won, pairs = pairs_within(question, confidence[valid], correct[valid], int(valid.sum()))
        values[WITHIN] = won.sum() / pairs.sum() if pairs.any() else np.nan
    return [values[name] for name in metrics]


def _list(items: Sequence[object]) -> str:
    return ", ".join(map(str, items)) or "(none)"
