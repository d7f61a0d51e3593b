"""Which command made a file or folder, for nothing is replaced that none has made."""

from collections.abc import Collection
from pathlib import Path

from cocal.store.folders import PROVENANCE
from cocal.store.lineage import Product

_ONE_PRODUCT = (PROVENANCE, "spec.json", "zarr.json")
"""Files that say for a whole folder what made it: a checkpoint, companions, a feature store."""
_SNAKEMAKE = ".snakemake_timestamp"
"""File that Snakemake puts into a folder among its outputs."""


def made_by(path: Path, stages: Collection[str] | None = None) -> bool:
    """Whether a file, or all that a folder holds, names one of these stages in its provenance.

    Args:
        path: A file or folder that exists.
        stages: Names of stages; None for any of them.
    """
    if path.is_dir() and not any((path / name).exists() for name in _ONE_PRODUCT):
        return all(made_by(entry, stages) for entry in path.iterdir() if entry.name != _SNAKEMAKE)
    try:
        stage = Product(path).attributes.get("stage")
    except Exception:  # whatever cannot be read is not known to be ours
        return False
    return stage is not None if stages is None else stage in stages
