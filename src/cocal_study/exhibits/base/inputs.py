"""Readers of the files that exhibits show, by their kind, and of cells and rows in them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin

import pandas as pd

from cocal.companion.spec import read_spec
from cocal.errors import ConfigError, ContractError
from cocal.metrics.calibration import METRICS
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal_study.cubes.cells import policy_cell, read_cells
from cocal_study.cubes.cube import MEAN, UNSEEDED
from cocal_study.cubes.resamples import read_resamples
from cocal_study.evidence.claims import read_claims
from cocal_study.evidence.published import read_published
from cocal_study.exhibits.base.exhibit import COMPANIONS, GATHERED, OF_REPOSITORY, Layout, StepLayout, needed, reads
from cocal_study.methods.recalibration.calibrators import Fits
from cocal_study.planning.costs import Cost, Latency, job_seconds, read_cost
from cocal_study.provenance.lineage import Product, Source, descent, trace
from cocal_study.store.contracts import PREDICTIONS, PREQUENTIAL, QUESTIONS
from cocal_study.store.datasets import read_dataset
from cocal_study.store.numbers import read_numbers

Cube = Any
"""The type of metric cubes in annotations; a process that declares exhibits need not load xarray."""

CHOSEN_FROM = ("dataset", "question_id", "response_id", "step", "sample", "answer", "answer_class", "correct")
"""Columns of the responses that exhibits read: all that a choice among them depends on."""

READERS: dict[str, Callable[[Path], Any]] = {
    **dict.fromkeys(("metrics", "second_metrics"), read_dataset),
    **dict.fromkeys(("resamples", "second"), read_resamples),
    "predictions": partial(read_frame, contract=PREDICTIONS),
    "responses": partial(read_frame, contract=RESPONSES, columns=CHOSEN_FROM),
    "rollouts": partial(read_frame, contract=RESPONSES, columns=("question_id", "step", "truncated", "correct")),
    **dict.fromkeys(("questions", "asked"), partial(read_frame, contract=QUESTIONS, columns=("question_id", "level"))),
    "lengths": partial(read_frame, contract=RESPONSES, columns=("question_id", "response_id", "length")),
    "scores": partial(read_frame, contract=PREQUENTIAL),
    "answered": partial(read_frame, contract=RESPONSES, columns=("correct", "logprobs")),
    **dict.fromkeys(COMPANIONS, read_spec),
    "latency": partial(read_cost, model=Latency),
    "calibrators": partial(read_cost, model=Fits),
    "published": read_published,
    "ledger": read_claims,
    **dict.fromkeys(GATHERED, read_numbers),
    "replicates": partial(read_numbers, columns=("claim", "source", "score", "case", "margin")),
    **dict.fromkeys(("training", "sampling", "fit", "postcal_fit"), partial(read_cost, model=Cost)),
    **dict.fromkeys(("base_job", "answers_job", "states_job"), job_seconds),
}
"""The reader of each kind of file; docs/architecture.md has a table of what exhibits are given."""

Given = Mapping[str, Sequence[Path]]
"""The files that an exhibit is given, by kind."""


def read_inputs(module: ModuleType, files: Given) -> dict[str, Any]:
    """Read the files of each kind by `READERS`; the result is a list where the exhibit reads several.

    Raises ConfigError if a kind that it reads (an argument of its `prepare`) is missing, or there are files that it
    does not read, and ContractError if a file is missing or broken.
    """
    several = {parameter.name: get_origin(parameter.annotation) is Sequence for parameter in reads(module)}
    for kind in dict.fromkeys([*files, *needed(module)]):
        given = len(files.get(kind, ()))
        if kind not in several or not given or (given > 1 and not several[kind]):
            name = module.__name__.rpartition(".")[2]
            known = ", ".join(f"{wanted}{' (one or more)' * many}" for wanted, many in several.items()) or "no files"
            raise ConfigError(f"--input {kind}: {name} reads {known}, and {given} of this kind are given")
    contents = {kind: [READERS[kind](path) for path in given] for kind, given in files.items()}
    return {kind: content if several[kind] else content[0] for kind, content in contents.items()}


def origin_of(layout: Layout, files: Given, output: Path) -> dict[str, str]:
    """Tell what an exhibit is made of: the digests of its files by kind, and the attribute that names all of them.

    Every file is traced back to the questions, as far as its ancestors are still there. Raises ContractError if a file
    belongs to another backbone or step than the exhibit shows, or if it, or one of its ancestors, was made from other
    files than those that are there now.
    """
    stated = {name: getattr(layout, name) for name in ("backbone", "step") if getattr(layout, name, None) is not None}
    sources = []
    for kind, paths in files.items():
        # predictions are of several policies, from which the exhibit chooses by their columns
        own = {name: value for name, value in stated.items() if (kind, name) != ("predictions", "step")}
        if kind not in OF_REPOSITORY:  # their paths differ from folder to folder
            sources += [Source(path, **own) for path in paths]
    made = descent(output, "exhibit", layout, sources)
    for _ in trace(*(source.path for source in sources)):
        pass
    digests = {kind: ", ".join(Product(path).identity for path in given) for kind, given in files.items()}
    return digests | {"parents": made["parents"]}


def mean_cell(backbone: str, method: str, step: int, dataset: str, **sweep: str | int) -> dict[str, Any]:
    """The labels of a cell of a metric cube: a method's mean over its seeds, on responses of its policy at `step`;
    `sweep` has those of further dimensions."""
    algorithm, step = policy_cell(method, step)
    policy = {"backbone": backbone, "algorithm": algorithm, "step": step, **sweep}
    return {**policy, "dataset": dataset, "method": method, "seed": MEAN}


def read_methods(
    cube: Cube,
    layout: StepLayout | Any,
    datasets: Iterable[str],
    methods: Iterable[str],
    metrics: Sequence[str] = METRICS,
    case: str = "dataset",
) -> pd.DataFrame:
    """Metrics of methods on data sets, as means over the seeds, at the backbone and step of the layout: the column that
    `case` names, which holds the data set, method, and those of `cocal_study.cubes.cells.read_cell`."""
    cells = {
        (dataset, method): mean_cell(layout.backbone, method, layout.step, dataset)
        for dataset in datasets
        for method in methods
    }
    return read_cells(cube, cells, [case, "method"], metrics)


def cube_of(backbone: str, cubes: Sequence[Cube]) -> Cube:
    """The one of several metric cubes that holds a backbone; the first if none does, so that reading it raises an
    error."""
    return next((cube for cube in cubes if backbone in cube.indexes["backbone"]), cubes[0])


def rows_by_seed(
    predictions: pd.DataFrame, layout: StepLayout, dataset: str, method: str, seed: int | None = None
) -> dict[int, pd.DataFrame]:
    """The predictions of a method on a data set, on responses of its policy at the step of the layout, by seed. Raises
    ContractError if there are none, or none of `seed`, which a method with seeds must have."""
    algorithm, step = policy_cell(method, layout.step)
    cell = {"backbone": layout.backbone, "algorithm": algorithm, "step": step, "dataset": dataset, "method": method}
    by_seed = dict(iter(predictions[(predictions[list(cell)] == pd.Series(cell)).all(axis=1)].groupby("seed")))
    if not by_seed or (seed is not None and by_seed.keys().isdisjoint({UNSEEDED, seed})):
        named = f"method {method!r}" if seed is None else f"method {method!r} (seed {seed})"
        raise ContractError(
            f"predictions: none of {named} on {dataset}, backbone {layout.backbone}, {algorithm}, step {step}; add "
            "their file, or leave it out of the layout"
        )
    return by_seed


def seeds_of(cube: Cube) -> int:
    """Number of companion seeds in a metric cube; its other label is their mean."""
    return cube.sizes["seed"] - 1
