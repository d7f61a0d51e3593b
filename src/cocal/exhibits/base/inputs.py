"""How the files that exhibits show are read, by their kind."""

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_origin

from cocal.companion.spec import read_spec
from cocal.errors import ConfigError
from cocal.exhibits.base.exhibit import LEDGER, OF_REPOSITORY, PUBLISHED, REPLICATES
from cocal.exhibits.base.layouts import Layout
from cocal.metrics.resamples import read_resamples
from cocal.store import read_dataset, read_frame
from cocal.store.contracts import PREDICTIONS, PREQUENTIAL, RESPONSES
from cocal.store.lineage import Product, trace
from cocal.study.costs import Cost, Latency, read_cost
from cocal.study.lineage import Source, descent

if TYPE_CHECKING:
    import xarray as xr


def _published(folder: Path) -> Any:
    from cocal.evidence.published import read_published

    return read_published(folder)


def _ledger(path: Path) -> Any:
    from cocal.evidence.claims import read_claims

    return read_claims(path)


def _replicates(path: Path) -> Any:
    import pandas as pd

    return pd.read_csv(path, keep_default_na=False, na_values=["NaN"])


def _cost(path: Path) -> Cost:
    return read_cost(path, Cost)


CHOSEN_FROM = ("dataset", "question_id", "response_id", "step", "sample", "answer", "answer_class", "correct")
"""Columns of the responses that exhibits read: all that a choice among them depends on."""

READERS: dict[str, Callable[[Path], Any]] = {
    "metrics": read_dataset,
    "resamples": read_resamples,
    "predictions": lambda path: read_frame(path, PREDICTIONS),
    "responses": lambda path: read_frame(path, RESPONSES, CHOSEN_FROM),
    "scores": lambda path: read_frame(path, PREQUENTIAL),
    "companions": read_spec,
    "latency": lambda path: read_cost(path, Latency),
    PUBLISHED: _published,
    LEDGER: _ledger,
    REPLICATES: _replicates,
    "training": _cost,
    "sampling": _cost,
    "fit": _cost,
    "postcal_fit": _cost,
}
"""By kind: metric cubes, the metrics of every resample behind them, tables of predictions and of responses, scores of
online companions, specs in the folders of companions, inference times, the folder of the paper's numbers, the ledger of
its claims, what `cocal spread` has gathered of a table, and the times of policy training, of PostCal's sampling, and of
the fits of CoCal's and PostCal's companions."""


def check_inputs(module: ModuleType, files: Mapping[str, Path | Sequence[Path]]) -> None:
    """Compare the files that are given with those that an exhibit reads: the arguments of its `prepare`.

    Args:
        module: The exhibit's module; a diagram has no `prepare` and reads nothing.
        files: The files, by kind.

    Raises:
        ConfigError: if a kind is missing or another one is given, or several files of a kind of which it reads one, or
            one file where it reads several.
    """
    name = module.__name__.rpartition(".")[2]
    _, *arguments = signature(module.prepare).parameters.values() if hasattr(module, "prepare") else [None]
    several = {one.name: get_origin(one.annotation) is Sequence for one in arguments}
    optional = {one.name for one in arguments if one.default is not Parameter.empty}
    for kind, given in files.items():
        if kind not in several:
            reads = f"it reads {', '.join(several)}" if several else "it reads no files"
            raise ConfigError(f"--input: {name} has no kind of input {kind!r}; {reads}")
        if isinstance(given, Path) == several[kind]:
            flag = f"--inputs {kind} FILE..." if several[kind] else f"--input {kind}=FILE"
            raise ConfigError(f"{kind}: {name} takes it as {flag}")
        if given == []:
            raise ConfigError(f"--inputs: no file of the kind {kind} is given")
    for kind in (kind for kind in several if kind not in files and kind not in optional):
        raise ConfigError(f"--input: {name} also reads {kind}, which is missing")


def read_inputs(files: Mapping[str, Path | Sequence[Path]]) -> dict[str, Any]:
    """What the files hold, by kind; a list where several were given.

    Raises:
        ConfigError: if a kind is unknown.
        ContractError: if a file is missing or broken.
    """
    unknown = [kind for kind in files if kind not in READERS]
    if unknown:
        raise ConfigError(f"--input: {unknown[0]} is no kind of input; known are {', '.join(READERS)}")
    return {
        kind: READERS[kind](given) if isinstance(given, Path) else [READERS[kind](path) for path in given]
        for kind, given in files.items()
    }


def origin_of(layout: Layout, files: Mapping[str, Path | Sequence[Path]], output: Path) -> dict[str, str]:
    """What an exhibit is made of: the digests of its files by kind, and the attribute that names all of them.

    Every file is traced back to the questions, as far as its ancestors are still there.

    Raises:
        ContractError: if a file belongs to another backbone or step than the exhibit shows, or if it, or one of its
            ancestors, was made from other files than those that are there now.
    """
    shown = {name: getattr(layout, name, None) for name in ("backbone", "step")}
    needed = {name: value for name, value in shown.items() if value is not None}
    kinds = {kind: [given] if isinstance(given, Path) else given for kind, given in files.items()}
    sources = []
    for kind, paths in kinds.items():
        if kind in OF_REPOSITORY:  # their place differs from folder to folder
            continue
        # predictions are of several policies, from which the exhibit chooses by their columns
        own = {name: value for name, value in needed.items() if (kind, name) != ("predictions", "step")}
        sources += [Source(path, **own) for path in paths]
    made = descent(output, "exhibit", layout.identity(), sources)
    for _ in trace(*(source.path for source in sources)):
        pass
    digests = {kind: ", ".join(Product(path).identity for path in given) for kind, given in kinds.items()}
    return digests | {"parents": made["parents"]}


def seeds_of(cube: "xr.Dataset") -> int:
    """Number of companion seeds in a metric cube; its other label is their mean."""
    return cube.sizes["seed"] - 1
