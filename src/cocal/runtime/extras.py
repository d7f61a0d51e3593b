"""The packages that only some commands need: each belongs to an extra of this package (pyproject.toml)."""

EXTRAS = {
    "accelerate": "train",
    "datasets": "train",
    "pandera": "train",
    "pyarrow": "train",
    "trl": "train",
    "zarr": "train",
    "h5netcdf": "workflow",
    "h5py": "workflow",
    "sklearn": "workflow",
    "snakemake": "workflow",
    "xarray": "workflow",
}
"""The extra that installs a package, by the name under which it is imported."""
