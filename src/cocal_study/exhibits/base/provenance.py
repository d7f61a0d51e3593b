"""The provenance of one number of a table or figure: the cell of the metric cube, and the files that it rests on."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from cocal.companion.spec import read_spec
from cocal.errors import ConfigError, ContractError
from cocal.store import read_frame
from cocal_study.config.methods import METHODS
from cocal_study.cubes.cube import MEAN
from cocal_study.provenance.lineage import Product, trace
from cocal_study.store.contracts import PREDICTIONS
from cocal_study.store.datasets import read_dataset
from cocal_study.store.numbers import read_numbers

_COMPANION = ("source_step", "validation_step", "layer", "pooling")
"""Columns of predictions that say which companion gave a confidence."""
_KINDS = {
    "metrics": "cube",
    "predictions": "predictions",
    "companions": "companion",
    "features": "states",
    "responses": "responses",
    "rollouts": "rollouts",
    "policies": "checkpoint",
    "questions": "questions",
}
"""Kinds of the folders of results/, in the order from a number back to the questions."""


class Provenance(NamedTuple):
    """The provenance of one number."""

    numbers: pd.DataFrame
    """The rows of the exhibit's CSV: one, or one for each step, seed and so on that a figure shows."""
    cells: Sequence[Mapping[str, Any]]
    """Labels of the cells of the cube that hold these numbers."""
    rows: pd.DataFrame
    """The predictions that the cells are computed from."""
    products: Sequence[tuple[str, Product]]
    """The files that these rest on, with their kind; companions, states and responses are only those of the method and
    of the question sets."""
    absent: Sequence[Path]
    """Paths of ancestors that neither exist nor are in the record of a bundle."""


def provenance_of(file: Path, method: str, dataset: str, metric: str) -> Provenance:
    """Trace a number of an exhibit back to the questions; `file` is any form of the exhibit, with its CSV beside it.
    Raises ConfigError if the exhibit has no such number, or is not made from a metric cube, and ContractError if a file
    is missing, or an ancestor is not the one that the exhibit was made from, or the cube does not hold the number."""
    numbers = _numbers(file.with_suffix(".csv"), {"method": method, "dataset": dataset})
    wanted = numbers[numbers["metric"] == metric]
    if wanted.empty:
        raise ConfigError(f"{file}: has no metric {metric!r}; it has {', '.join(numbers['metric'].unique())}")
    whole = [product for _, product in trace(file)]  # every ancestor is compared
    cubes = [product for product in whole[1:] if _kind(product.path) == "cube" and product.path in whole[0].parents]
    if not cubes:
        raise ConfigError(f"{file}: is not made from a metric cube, so its numbers are no cells; leave --cell out")
    cells = [(cube, cell) for cube in cubes for cell in _cells(cube.path, numbers, metric)]
    if not cells:
        places = ", ".join(str(cube.path) for cube in cubes)
        raise ContractError(f"{file}: {places} does not hold its numbers of {method} on {dataset}; rerun the exhibit")
    rows, products = [], {}
    for cube, cell in cells:
        groups = json.loads(cube.attributes["settings"])["groups"]
        products[cube.path] = cube
        for path in cube.parents:
            if part := _rows(path, cell, groups.get(dataset, [dataset])):
                chosen, others = part
                rows.append(chosen)
                family = trace(path, keep=_wanted(method, chosen, others))
                products |= {product.path: product for _, product in family}
    parents = {path for product in products.values() for path in product.parents}
    absent = sorted(path for path in parents if not path.exists() and path not in {product.path for product in whole})
    of_kind = [
        (kind, product) for kind in _KINDS.values() for product in products.values() if _kind(product.path) == kind
    ]
    return Provenance(wanted, [cell for _, cell in cells], pd.concat(rows).drop_duplicates(), of_kind, absent)


def _kind(path: Path) -> str:
    """Kind of a product, by the folder of results/ in which it lies."""
    names = path.absolute().parts
    return _KINDS.get(names[len(names) - names[::-1].index("results")], "") if "results" in names else ""


def _numbers(file: Path, labels: Mapping[str, str]) -> pd.DataFrame:
    """The rows of an exhibit's CSV with these labels."""
    if not file.exists():
        raise ContractError(f"{file}: no such file, which holds the numbers of the exhibit; rerun the exhibit")
    numbers = read_numbers(file)
    if missing := sorted({"method", "dataset", "metric", "value"} - {*numbers.columns}):
        raise ConfigError(f"{file}: has no column {missing[0]!r}, so its numbers are no cells; leave --cell out")
    for name, label in labels.items():
        if label not in (known := list(numbers[name].unique())):
            raise ConfigError(f"{file}: has no {name} {label!r}; it has {', '.join(map(str, known))}")
        numbers = numbers[numbers[name] == label]
    return numbers


def _cells(cube: Path, numbers: pd.DataFrame, metric: str) -> Iterator[dict[str, Any]]:
    """The cells of a cube that hold all metrics of these rows, with their intervals, as far as the CSV shows them.

    A CSV need not name the backbone and the step of its cells; cells are found by their numbers then.
    """
    content = read_dataset(cube)
    metrics = [name for name in content.indexes["metric"] if name in {*numbers["metric"]}]
    held = content[["value", "lower", "upper"]].sel(metric=metrics).to_dataframe()
    held = held.dropna(subset=["value"]).reset_index()
    labels = [str(name) for name in content["value"].dims]
    shown = numbers if "seed" in numbers else numbers.assign(seed=MEAN)
    shown = shown[shown["metric"].isin(metrics)].dropna(subset=["value"])
    keys = [name for name in labels if name in shown]
    compared = [name for name in ("value", "lower", "upper") if name in shown]
    digits = dict.fromkeys(keys, "{}".format) | dict.fromkeys(compared, "{:.12g}".format)  # the precision of a CSV
    texts = [pd.DataFrame({name: frame[name].map(text) for name, text in digits.items()}) for frame in (shown, held)]
    both = held.loc[texts[1].reset_index().merge(texts[0], on=keys + compared)["index"]]
    for _, cells in both.groupby([name for name in labels if name not in keys], sort=False):
        if len(cells) == len(shown):
            yield from cells[labels].assign(metric=metric).drop_duplicates().to_dict("records")


def _rows(path: Path, cell: Mapping[str, Any], members: Sequence[str]) -> tuple[pd.DataFrame, set[str]] | None:
    """The rows of predictions that a cell is computed from, and the question sets of other rows; None without rows."""
    frame = read_frame(path, PREDICTIONS)
    chosen = frame[frame["dataset"].isin(members)]
    for name in [name for name in cell if name in frame and name not in ("dataset", "seed")]:
        chosen = chosen[chosen[name] == cell[name]]
    if cell["seed"] != MEAN:
        chosen = chosen[chosen["seed"] == int(cell["seed"])]
    return None if chosen.empty else (chosen, {*frame["dataset"].unique()} - {*members})


def _wanted(name: str, rows: pd.DataFrame, others: set[str]) -> Callable[[Product], bool]:
    """Return a function that tells whether a method's confidences rest on an ancestor of its predictions, which are in
    `rows`; `others` are the question sets without such rows."""
    method, companions = METHODS.get(name), rows[list(_COMPANION)].drop_duplicates().astype(str).to_dict("records")

    def wanted(product: Product) -> bool:
        facts, kind = product.facts, _kind(product.path)
        if facts.get("dataset", "") in others:
            return False
        if method is None:  # a recalibrated baseline, whose sources its file names
            return True
        if facts.get("prompt_format", method.prompt_format) != method.prompt_format:
            return False
        if kind != "companion":
            return method.experience is not None or kind != "states"
        if facts.get("experience") != method.experience:
            return False
        stated = {name: facts[name] for name in _COMPANION if name in facts}
        if product.recorded is None:
            spec = read_spec(product.path)
            stated |= {"layer": str(spec.layer), "pooling": spec.pooling}
        return any(stated.items() <= labels.items() for labels in companions)

    return wanted


def page_of(file: Path, provenance: Provenance, commit: str) -> str:
    """The provenance of an exhibit's number as text: the number, its cell, each file with what made it, the versions,
    and the commit of the code, which `commit` states in words."""
    lines = [f"{file}: {' on '.join(provenance.numbers.iloc[0][['method', 'dataset']])}"]
    lines += [f"  {_said(row)}" for row in provenance.numbers.drop(columns=["method", "dataset"]).to_dict("records")]
    lines += [f"cell  {_said(cell)}" for cell in provenance.cells]
    for (seed, *companion), rows in provenance.rows.groupby(["seed", *_COMPANION]):
        of = f", companion {_said(dict(zip(_COMPANION, companion, strict=True)))}" if seed >= 0 else ""
        lines.append(f"rows  seed={seed}{of}: {len(rows)} confidences, {rows['valid'].sum()} of them valid")
    parameters: set[str] = set()
    versions: dict[str, list[str]] = {}
    for kind, product in provenance.products:
        stated = product.attributes
        lines += ["", f"{kind}  {product.path}  {product.identity}{'  (not here)' if product.recorded else ''}"]
        if "stage" in stated:
            facts = {name: text for name, text in product.facts.items() if name != "stage"}
            shown = "as above" if stated["digest"] in parameters else stated["settings"]
            lines += [f"  job  cocal {stated['stage']}  {_said(facts)}", f"  parameters  {stated['digest']}  {shown}"]
            parameters.add(stated["digest"])
            words = f"{stated['versions']}, numerics {stated.get('numerics', 'native')}"
            versions.setdefault(words, []).append(str(product.path))
    lines += ["", *(f"absent  {path}" for path in provenance.absent)]
    lines += [f"versions  {words}{'' if len(versions) == 1 else ': ' + ' '.join(of)}" for words, of in versions.items()]
    return "\n".join([*lines, f"commit  {commit}"])


def _said(labels: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={label}" for name, label in labels.items())
