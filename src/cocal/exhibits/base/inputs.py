"""How the files that exhibits show are read, by their kind."""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_origin

from cocal.companion.spec import read_spec
from cocal.errors import ConfigError
from cocal.store import digest, read_dataset, read_frame
from cocal.store.contracts import PREDICTIONS
from cocal.study.costs import Cost, Latency, read_cost

if TYPE_CHECKING:
    import xarray as xr


def _cost(path: Path) -> Cost:
    return read_cost(path, Cost)


READERS: dict[str, Callable[[Path], Any]] = {
    "metrics": read_dataset,
    "predictions": lambda path: read_frame(path, PREDICTIONS),
    "companions": read_spec,
    "latency": lambda path: read_cost(path, Latency),
    "training": _cost,
    "sampling": _cost,
    "fit": _cost,
    "postcal_fit": _cost,
}
"""By kind: metric cubes, tables of predictions, specs in the folders of companions, inference times, and the times of
policy training, of PostCal's sampling, and of the fits of CoCal's and PostCal's companions."""


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
    for kind, given in files.items():
        if kind not in several:
            reads = f"it reads {', '.join(several)}" if several else "it reads no files"
            raise ConfigError(f"--input: {name} has no kind of input {kind!r}; {reads}")
        if isinstance(given, Path) == several[kind]:
            flag = f"--inputs {kind} FILE..." if several[kind] else f"--input {kind}=FILE"
            raise ConfigError(f"{kind}: {name} takes it as {flag}")
        if given == []:
            raise ConfigError(f"--inputs: no file of the kind {kind} is given")
    for kind in (kind for kind in several if kind not in files):
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


def input_digests(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Digests of what was read, by kind, for the line that says what a table was made of."""
    found = {}
    for kind, given in inputs.items():
        many = given if isinstance(given, list) else [given]
        found[kind] = ", ".join(
            one.attrs.get("digest", "unknown") if kind == "metrics" else digest(one) for one in many
        )
    return found


def seeds_of(cube: "xr.Dataset") -> int:
    """Number of companion seeds in a metric cube; its other label is their mean."""
    return cube.sizes["seed"] - 1
