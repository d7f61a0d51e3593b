"""Labelled arrays, which are sealed and carry their provenance."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cocal.errors import ContractError
from cocal.store.atomic import atomic_path
from cocal.store.damage import absent, unreadable
from cocal.store.origin import SEAL
from cocal.store.seals import BLANK, check_seal, seal

if TYPE_CHECKING:
    import xarray as xr


def write_dataset(path: str | Path, dataset: "xr.Dataset", attributes: Mapping[str, str]) -> None:
    """Write an xarray data set atomically as NetCDF 4 with its provenance attributes, and seal it.

    The file is built in memory: where HDF5 cannot write to a disk, it ends the process with a segmentation fault.
    """
    content = dataset.assign_attrs({**attributes, SEAL: BLANK}).to_netcdf(engine="h5netcdf")
    with atomic_path(path) as partial:
        partial.write_bytes(content)
        seal(partial)


def read_dataset(path: str | Path) -> "xr.Dataset":
    """Read a whole NetCDF file into memory. Raises ContractError if the file is missing, has changed since it was
    written, or is not NetCDF."""
    import xarray as xr

    if not Path(path).exists():
        raise ContractError(absent(path))
    try:
        check_seal(path)
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            dataset = opened.load()
    except ContractError:
        raise
    except (OSError, ValueError, KeyError) as error:
        raise ContractError(unreadable(path, "NetCDF file", error)) from None
    dataset.attrs.pop(SEAL, None)
    return dataset
