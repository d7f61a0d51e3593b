"""The metrics of every resample of the questions, from which paired differences between methods are computed.

The cube keeps only intervals. A difference between two methods needs the values of both on the same resamples, which
are shared by all cells with the same questions, in any file (`cocal.metrics.bootstrap.generator_for`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from cocal.errors import ContractError
from cocal.metrics.scores import PAIRED
from cocal.metrics.settings import MetricSettings
from cocal.store import read_frame
from cocal_study.cubes.cube import Evaluated, evaluate_cells
from cocal_study.store.contracts import PREDICTIONS
from cocal_study.store.datasets import read_dataset

MAIN = "main"
"""The comparison of the methods with one another; the others are named like their cubes, such as "budgets"."""
_LABELS = ("algorithm", "step", "source_step", "layer", "pooling", "dataset", "method")


def resamples_of(evaluated: Evaluated) -> xr.Dataset:
    """Arrange the metrics of all cells that are `PAIRED` as a list of cells.

    Returns:
        A data set with the dimensions cell, metric, seed and resample, and the variables

        - `value`: float64 (cell, metric), the mean over the seeds.
        - `by_seed`: float64 (cell, seed, metric), NaN for methods without seeds.
        - `resampled`: float64 (cell, metric, resample), the mean over the seeds; NaN where a resample does not define
          the metric.
        - `backbone`, the labels of a cell in the dimensions of the cube, and `questions`, the digest of the questions.

        Its attribute `level` is the confidence level of the intervals.
    """
    cells, seeds = evaluated.cells, evaluated.coordinates["seed"][1:]
    names = [name for name in evaluated.coordinates["metric"] if name in PAIRED]
    chosen = [evaluated.coordinates["metric"].index(name) for name in names]
    value = np.array([evaluation.values[:, chosen].mean(axis=0) for evaluation in cells.values()])
    resampled = np.array([evaluation.resampled[:, :, chosen].mean(axis=0).T for evaluation in cells.values()])
    by_seed = np.full((len(cells), len(seeds), len(names)), np.nan)
    for place, evaluation in enumerate(cells.values()):
        if [str(seed) for seed in evaluation.seeds] == seeds:
            by_seed[place] = evaluation.values[:, chosen]
    labels = {
        name: ("cell", [dataset if name == "dataset" else getattr(cell, name) for cell, dataset in cells])
        for name in ("backbone", *_LABELS)
    }
    return xr.Dataset(
        {
            "value": (("cell", "metric"), value),
            "by_seed": (("cell", "seed", "metric"), by_seed),
            "resampled": (("cell", "metric", "resample"), resampled),
            **labels,
            "questions": ("cell", [evaluation.questions for evaluation in cells.values()]),
        },
        coords={"metric": names, "seed": seeds},
        attrs={"level": evaluated.level},
    )


@dataclass(frozen=True)
class Key:
    """The labels of a cell without its backbone; the last three are set where a comparison sweeps steps or states."""

    method: str
    algorithm: str
    step: int
    dataset: str
    source_step: int = -1
    layer: int = -1
    pooling: str = ""


@dataclass(frozen=True)
class Resamples:
    """The resampled metrics (`resamples_of`) of one comparison of one backbone: `MAIN`, or that of the cube, such as
    "budgets", and the index of each cell. The source is for error messages."""

    source: str
    backbone: str
    comparison: str
    data: xr.Dataset
    places: Mapping[Key, int]

    @classmethod
    def of(cls, data: xr.Dataset, source: str, comparison: str = MAIN) -> "Resamples":
        """Index the cells of `resamples_of`. Raises ContractError if they belong to several backbones."""
        backbones = sorted(set(data["backbone"].to_numpy()))
        if len(backbones) != 1:
            raise ContractError(f"{source}: cells of {len(backbones)} backbones; make one file for each")
        columns = {name: data[name].to_numpy().tolist() for name in _LABELS}
        keys = (Key(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True))
        return cls(source, str(backbones[0]), comparison, data, {key: place for place, key in enumerate(keys)})

    @property
    def level(self) -> float:
        """Confidence level of the intervals."""
        return float(self.data.attrs["level"])


def resamples_behind(cube: Path, *names: str) -> Resamples:
    """The resampled metrics of the named confidences of a metric cube, such as "cocal-binary" and "length+platt-all",
    recomputed from its predictions. The cube of the baselines has too many to keep the resamples of all. Raises
    ContractError if the cube or its predictions are missing or damaged, or lack one of the confidences."""
    facts = read_dataset(cube).attrs
    settings, study = json.loads(facts["settings"]), cube.parents[2]
    frames = [read_frame(study / file, PREDICTIONS) for file in json.loads(facts["parents"])]
    predictions = pd.concat([frame[frame["method"].isin(names)] for frame in frames], ignore_index=True)
    for name in sorted({*names} - {*predictions["method"]}):
        raise ContractError(f"{cube}: holds no confidence called {name!r}; run the study with it")
    evaluated = evaluate_cells(predictions, MetricSettings.model_validate(settings["metrics"]), settings["groups"])
    return Resamples.of(resamples_of(evaluated), str(cube))


def read_resamples(path: Path) -> Resamples:
    """Read the file of a comparison, which is named after its backbone, followed by a hyphen and the comparison. Raises
    ContractError if the file is missing or damaged, or holds cells of several backbones."""
    resamples = Resamples.of(read_dataset(path), str(path))
    return replace(resamples, comparison=path.stem.removeprefix(resamples.backbone).removeprefix("-") or MAIN)
