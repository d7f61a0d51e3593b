"""What files say of their origin: the provenance attributes that each kind of file carries, and who has made them.

Files of a study are among them, since no command may replace what another one has made.
"""

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from cocal.errors import ContractError
from cocal.store.damage import absent, unreadable

PROVENANCE = "provenance.json"
"""File of a folder that says what made the folder."""
PROVENANCE_KEY = "provenance"
"""Name of the member of a JSON object that holds the provenance attributes."""
SEAL = "seal"
"""Name of the attribute that holds the seal of the file."""
PARENTS = "parents"
"""Name of the attribute that names a product's parents, as JSON."""
MADE_OF = "% made of "
"""The beginning of the line of a LaTeX table that names its parents; a figure names them in the metadata of its PNG."""
_ONE_PRODUCT = (PROVENANCE, "spec.json", "zarr.json")
"""Files that say for a whole folder what made it: a checkpoint, companions, a feature store."""
_SNAKEMAKE = ".snakemake_timestamp"
"""File that Snakemake puts into a folder among its outputs."""


def read_provenance(path: str | Path) -> dict[str, str]:
    """Provenance attributes of a file or a feature store; empty if it has none. Damage raises a ContractError."""
    path = Path(path)
    if not path.exists():
        raise ContractError(absent(path))
    suffix = ".zarr" if (path / "zarr.json").exists() else path.suffix
    kind, read = _KINDS.get(suffix, ("file", lambda _: {}))
    try:
        attributes = dict(read(path))
    except Exception as error:  # each library has errors of its own about a damaged file
        raise ContractError(unreadable(path, kind, error)) from None
    return {name: text for name, text in attributes.items() if name not in (SEAL, "coordinates")}


def _of_table(path: Path) -> Mapping[str, str]:
    import pyarrow.parquet as pq

    return json.loads((pq.read_schema(path).metadata or {}).get(b"cocal", b"{}"))


def _of_arrays(path: Path) -> Mapping[str, str]:
    import h5py

    with h5py.File(path) as file:
        return {name: str(text) for name, text in file.attrs.items() if isinstance(text, str)}


def _of_companions(path: Path) -> Mapping[str, str]:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        return json.loads((file.metadata() or {}).get("cocal", "{}")).get("provenance", {})


def _of_exhibit(path: Path) -> Mapping[str, str]:
    """The parents of a table, from its LaTeX, or of a figure, from its PNG."""
    table, picture = path.with_suffix(".tex"), path.with_suffix(".png")
    parents = []
    if table.exists():
        lines = table.read_text(encoding="utf-8").splitlines()
        parents = [line.removeprefix(MADE_OF) for line in lines if line.startswith(MADE_OF)]
    elif picture.exists():
        from PIL import Image

        with Image.open(picture) as image:
            text = getattr(image, "text", {})  # a PNG has them
            parents = [text[PARENTS]] if PARENTS in text else []
    return {"stage": "exhibit", PARENTS: parents[-1]} if parents else {}


_KINDS: dict[str, tuple[str, Callable[[Path], Mapping[str, Any]]]] = {
    ".parquet": ("Parquet file", _of_table),
    ".nc": ("NetCDF file", _of_arrays),
    ".json": ("JSON file", lambda path: json.loads(path.read_text(encoding="utf-8")).get(PROVENANCE_KEY) or {}),
    ".safetensors": ("safetensors file", _of_companions),
    ".zarr": ("feature store", lambda path: json.loads((path / "zarr.json").read_text(encoding="utf-8"))["attributes"]),
    **dict.fromkeys((".tex", ".html", ".csv", ".pdf", ".png"), ("exhibit", _of_exhibit)),
}
"""By the ending of a file: its name in errors, and the function that reads its attributes."""


def stating_files(path: Path) -> list[Path]:
    """The files that carry the attributes of a product: itself, or those of a checkpoint, companions, or tables."""
    if path.is_file() or (path / "zarr.json").exists():
        return [path]
    named = (path / PROVENANCE, path / "companions.safetensors", path / "spec.json")
    return [part for part in named if part.exists()] or sorted(path.glob("*.parquet"))


def made_by(path: Path, stages: Collection[str] | None = None) -> bool:
    """True if the provenance of a file, or of everything in a folder, names one of these stages, or any (None). A
    command replaces a file or folder only if this holds."""
    if path.is_dir() and not any((path / name).exists() for name in _ONE_PRODUCT):
        return all(made_by(entry, stages) for entry in path.iterdir() if entry.name != _SNAKEMAKE)
    try:
        named = [read_provenance(part).get("stage") for part in stating_files(path)]
    except Exception:  # whatever cannot be read is not known to be ours
        return False
    return bool(named) and all(stage is not None if stages is None else stage in stages for stage in named)
