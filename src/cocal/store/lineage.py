"""Lineage: every product records the digests of the files that it was made from, and can be traced back to them.

The provenance of a product names its parents by their paths, relative to the folder that holds `results/`, with the
identity that each of them had. So a study can be moved, and its lineage still holds. It also names the product's own
place, so that no file is taken for the one whose place it was put in.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cocal.errors import ContractError
from cocal.store import documents
from cocal.store.damage import absent, remedy, unreadable
from cocal.store.folders import PROVENANCE, listed_files
from cocal.store.frames import read_provenance
from cocal.store.provenance import canonical, digest, file_digest
from cocal.store.seal import KEY, stated_seal

PARENTS = "parents"
"""Name of the attribute that names a product's parents, as JSON."""
PLACE = "place"
"""Name of the attribute that names where a product lies, such as results/rollouts/tiny/grpo."""
MADE_OF = "% made of "
"""Beginning of the line of a table that holds this attribute; a figure has it among the texts of its PNG."""

_CHECKSUM = 4
"""Bytes at the end of a chunk of a feature store: its CRC-32C."""


@dataclass(frozen=True)
class Product:
    """A file or folder that a stage made, or that a user gave.

    Attributes:
        path: Its path: a Parquet, NetCDF or JSON file, a checkpoint, a feature store, a folder of companions, or a
            folder of Parquet tables.
    """

    path: Path

    @cached_property
    def attributes(self) -> dict[str, str]:
        """Provenance attributes; empty if it carries none.

        Raises:
            ContractError: if the file is missing, cannot be read, or says that it is another than the one whose place
                it lies in; so are the files of a folder compared, one by one.
        """
        path = self.path
        if not path.exists():
            raise ContractError(absent(path))
        place, found = _place(path), {}
        for part in _parts(path) if path.is_dir() else [path]:
            found = _ATTRIBUTES.get(part.suffix, lambda _: {})(part)
            made_as = found.get(PLACE)
            if place and made_as and not Path(place).is_relative_to(made_as):
                raise ContractError(f"{part}: was made as {made_as}, and lies in the place of another; {remedy(part)}")
        return found

    @cached_property
    def identity(self) -> str:
        """Digest of the content, 16 hexadecimal digits, from the digests and checksums that the files carry.

        Raises:
            ContractError: if the file is missing.
        """
        path = self.path
        if not path.exists():
            raise ContractError(absent(path))
        if path.is_file():
            return (stated_seal(path) or file_digest(path))[:16]
        if (path / "companions.safetensors").exists():
            return Product(path / "companions.safetensors").identity
        if (path / "zarr.json").exists():
            return _store_identity(path)
        if listed := listed_files(path):
            return digest(listed)
        return digest({file.name: Product(file).identity for file in sorted(path.iterdir()) if file.is_file()})

    @property
    def facts(self) -> dict[str, str]:
        """What the product is: its stage, and backbone, algorithm, step and so on as far as they apply."""
        apart = {PARENTS, PLACE, "digest", "settings", "versions", "numerics"}
        return {name: text for name, text in self.attributes.items() if name not in apart}

    @property
    def parents(self) -> dict[Path, str]:
        """Identity that each parent had when the product was made, by its path."""
        recorded = json.loads(self.attributes.get(PARENTS, "{}"))
        root = Path(os.path.relpath(_root(self.path)))
        return {Path(os.path.normpath(root / place)): identity for place, identity in recorded.items()}


def parents(output: str | Path, made_from: Iterable[str | Path]) -> dict[str, str]:
    """The attributes that name the parents of a product, and its place.

    Args:
        output: Path of the product.
        made_from: Paths of its parents.

    Raises:
        ContractError: if a parent is missing.
    """
    root = _root(Path(output))
    found = {os.path.relpath(Path(path).absolute(), root): Product(Path(path)).identity for path in made_from}
    return {PARENTS: canonical(found)} | placed(output)


def placed(output: str | Path) -> dict[str, str]:
    """The attribute that names the place of a product; none for a product outside `results/`."""
    place = _place(Path(output))
    return {PLACE: place} if place else {}


def trace(*paths: str | Path) -> Iterator[tuple[int, Product]]:
    """Products and all their ancestors, depth first, each once, with its distance from the product.

    An ancestor that has been deleted, to free space, ends its line.

    Raises:
        ContractError: if an ancestor is not the one that the product was made from.
    """
    known: dict[Path, Product] = {}
    for path in paths:
        product = Product(Path(os.path.relpath(path)))
        if product.path not in known:
            yield from _ancestors(product, 0, known)


def _ancestors(product: Product, distance: int, known: dict[Path, Product]) -> Iterator[tuple[int, Product]]:
    known[product.path] = product
    yield distance, product
    for path, identity in product.parents.items():
        if not path.exists():
            continue
        new, parent = path not in known, known.get(path, Product(path))
        if parent.identity != identity:
            raise ContractError(
                f"{product.path}: was made from {path} when its digest was {identity}, but now it is "
                f"{parent.identity}; {remedy(product.path, f'delete {product.path} and rerun')}"
            )
        if new:
            yield from _ancestors(parent, distance + 1, known)


def chunk_checksums(store: Path) -> dict[str, str]:
    """The checksum of every chunk of a feature store, in hexadecimal digits, by its path within the store."""
    found = {}
    for chunk in sorted(file for file in store.rglob("*") if file.is_file() and file.name != "zarr.json"):
        with chunk.open("rb") as stream:
            stream.seek(max(chunk.stat().st_size - _CHECKSUM, 0))
            found[str(chunk.relative_to(store))] = stream.read().hex()
    return found


def _root(path: Path) -> Path:
    """The folder that holds the `results/` in which a product lies; for a product elsewhere, its own folder."""
    place = path.absolute()
    return next((folder.parent for folder in place.parents if folder.name == "results"), place.parent)


def _place(path: Path) -> str | None:
    """Where a product lies, relative to the folder that holds its `results/`; None for a product elsewhere."""
    place = os.path.relpath(path.absolute(), _root(path))
    return place if place.startswith("results/") else None


def _parts(folder: Path) -> list[Path]:
    """What carries the attributes of a folder: a feature store, a checkpoint, companions, or tables."""
    if (folder / "zarr.json").exists():
        return [folder]
    named = (folder / PROVENANCE, folder / "companions.safetensors", folder / "spec.json")
    return [part for part in named if part.exists()] or sorted(folder.glob("*.parquet"))


def _companions_attributes(path: Path) -> dict[str, str]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            attributes = dict(json.loads((file.metadata() or {}).get("cocal", "{}")).get("provenance", {}))
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError) as error:
        raise ContractError(unreadable(path, "safetensors file", error)) from None
    attributes.pop(KEY, None)
    return attributes


def _netcdf_attributes(path: Path) -> dict[str, str]:
    import h5py

    try:
        with h5py.File(path) as file:
            return {name: str(text) for name, text in file.attrs.items() if name != KEY and isinstance(text, str)}
    except (OSError, RuntimeError) as error:
        raise ContractError(unreadable(path, "NetCDF file", error)) from None


def _exhibit_attributes(path: Path) -> dict[str, str]:
    """The parents of a table, from its LaTeX, or of a figure, from its PNG."""
    table, picture = path.with_suffix(".tex"), path.with_suffix(".png")
    if table.exists():
        lines = table.read_text(encoding="utf-8").splitlines()
        found = [line.removeprefix(MADE_OF) for line in lines if line.startswith(MADE_OF)]
        return {"stage": "exhibit", PARENTS: found[-1]} if found else {}
    if picture.exists():
        from PIL import Image

        with Image.open(picture) as image:
            return {"stage": "exhibit", PARENTS: image.text[PARENTS]} if PARENTS in image.text else {}
    return {}


def _store_attributes(path: Path) -> dict[str, str]:
    try:
        attributes = dict(json.loads((path / "zarr.json").read_text(encoding="utf-8"))["attributes"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ContractError(unreadable(path, "feature store", error)) from None
    attributes.pop("coordinates", None)
    return attributes


_ATTRIBUTES: dict[str, Callable[[Path], dict[str, str]]] = {
    ".parquet": read_provenance,
    ".nc": _netcdf_attributes,
    ".json": documents.read_attributes,
    ".safetensors": _companions_attributes,
    ".zarr": _store_attributes,
    **dict.fromkeys((".tex", ".html", ".csv", ".pdf", ".png"), _exhibit_attributes),
}


def _store_identity(path: Path) -> str:
    """Digest of a feature store's attributes and of the checksum of every chunk."""
    found = hashlib.sha256(canonical(_store_attributes(path)).encode())
    for chunk, checksum in chunk_checksums(path).items():
        found.update(chunk.encode() + bytes.fromhex(checksum))
    return found.hexdigest()[:16]
