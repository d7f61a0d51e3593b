"""Reading of the provenance attributes that a file of any kind carries."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cocal.errors import ContractError
from cocal.store.damage import absent, unreadable
from cocal.store.documents import PROVENANCE_KEY, read_object
from cocal.store.seal import KEY

PARENTS = "parents"
"""Name of the attribute that names a product's parents, as JSON."""
MADE_OF = "% made of "
"""Beginning of the line of a table that holds this attribute; a figure has it among the texts of its PNG."""


def read_provenance(path: str | Path) -> dict[str, str]:
    """Provenance attributes of a file or a feature store; empty if it carries none.

    Raises:
        ContractError: if it is missing or cannot be read.
    """
    path = Path(path)
    if not path.exists():
        raise ContractError(absent(path))
    suffix = ".zarr" if (path / "zarr.json").exists() else path.suffix
    kind, read = _KINDS.get(suffix, ("file", lambda _: {}))
    try:
        found = dict(read(path))
    except ContractError:
        raise
    except Exception as error:  # each library has errors of its own about a damaged file
        raise ContractError(unreadable(path, kind, error)) from None
    return {name: text for name, text in found.items() if name not in (KEY, "coordinates")}


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


def _of_store(path: Path) -> Mapping[str, str]:
    return json.loads((path / "zarr.json").read_text(encoding="utf-8"))["attributes"]


def _of_exhibit(path: Path) -> Mapping[str, str]:
    """The parents of a table, from its LaTeX, or of a figure, from its PNG."""
    table, picture = path.with_suffix(".tex"), path.with_suffix(".png")
    found: list[str] = []
    if table.exists():
        lines = table.read_text(encoding="utf-8").splitlines()
        found = [line.removeprefix(MADE_OF) for line in lines if line.startswith(MADE_OF)]
    elif picture.exists():
        from PIL import Image

        with Image.open(picture) as image:
            found = [image.text[PARENTS]] if PARENTS in image.text else []
    return {"stage": "exhibit", PARENTS: found[-1]} if found else {}


_KINDS: dict[str, tuple[str, Callable[[Path], Mapping[str, Any]]]] = {
    ".parquet": ("Parquet file", _of_table),
    ".nc": ("NetCDF file", _of_arrays),
    ".json": ("JSON file", lambda path: read_object(path).get(PROVENANCE_KEY) or {}),
    ".safetensors": ("safetensors file", _of_companions),
    ".zarr": ("feature store", _of_store),
    **dict.fromkeys((".tex", ".html", ".csv", ".pdf", ".png"), ("exhibit", _of_exhibit)),
}
"""By the ending of a file: its name in errors, and the function that reads its attributes."""
