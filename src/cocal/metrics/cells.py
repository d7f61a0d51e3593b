"""One cell of a metric cube, and which policy a method's responses come from."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from cocal.config.methods import METHODS
from cocal.errors import ContractError
from cocal.metrics.quality import RATES

if TYPE_CHECKING:
    import xarray as xr


def policy_cell(method: str, step: int) -> tuple[str, int]:
    """Algorithm and step whose predictions are the method's when the table or figure shows `step`.

    The pre-RL model is algorithm "base" at step 0 whatever the step of the others.
    """
    algorithm = METHODS[method].policy
    return (algorithm, 0) if algorithm == "base" else (algorithm, step)


def read_cell(cube: "xr.Dataset", cell: Mapping[str, str | int]) -> pd.DataFrame:
    """All metrics of one cell.

    Args:
        cube: metric cube (cocal.metrics.cube), with or without dimensions of a sweep.
        cell: a label of each of its dimensions but `metric`.

    Returns:
        One metric a row, in the cube's order; columns metric, value, lower, upper, n, those of
        `cocal.metrics.quality.RATES`, seed_sd.

    Raises:
        ContractError: if the cube has other dimensions, or lacks the cell.
    """
    file = cube.encoding.get("source", "metrics")  # xarray's own note of the file that was read
    found = [str(name) for name in cube["n"].dims]
    if set(found) != set(cell):
        raise ContractError(
            f"{file}: the cube's cells have the labels {', '.join(found)}; needed are {', '.join(cell)}. "
            "A sweep over companions has a cube of its own: give the other one"
        )
    where = ", ".join(f"{name} {label}" for name, label in cell.items() if name != "seed")
    for name, label in cell.items():
        if label not in cube.indexes[name]:
            known = ", ".join(map(str, cube.indexes[name]))
            raise ContractError(f"{file}: nothing for {where}: no such {name} (there are: {known})")
    one = cube.sel(cell)
    if int(one["n"]) == 0:
        raise ContractError(f"{file}: nothing for {where}; run its predictions, or leave it out of the layout")
    return pd.DataFrame(
        {
            "metric": one["metric"].to_numpy(),
            **{name: one[name].to_numpy() for name in ("value", "lower", "upper")},
            "n": int(one["n"]),
            **{name: float(one[name]) for name in RATES},
            "seed_sd": one["seed_sd"].to_numpy(),
        }
    )


def read_cells(
    cube: "xr.Dataset", cells: Mapping[tuple[str | int, ...], Mapping[str, str | int]], names: Sequence[str]
) -> pd.DataFrame:
    """All metrics of several cells (`read_cell`), below each other.

    Args:
        cells: cells by key, in order.
        names: columns, left of the others, that hold the parts of the keys.

    Raises:
        ContractError: if the cube lacks a cell.
    """
    read = {key: read_cell(cube, cell) for key, cell in cells.items()}
    return pd.concat(read, names=names).reset_index(level=list(names)).reset_index(drop=True)
