"""Lineage: every product records the digests of the files that it was made from, and can be traced back to them.

The provenance of a product names its parents by their paths, relative to the folder that holds `results/`, with the
identity that each of them had. So a study can be moved, and its lineage still holds. It also names the product's own
place, so that a file put in the place of another is not taken for it.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cocal.errors import ContractError
from cocal.store import provenance
from cocal.store.damage import absent, remedy, unreadable
from cocal.store.files import read_document, write_document
from cocal.store.origin import PARENTS, read_provenance, stating_files
from cocal.store.provenance import canonical
from cocal_study.provenance.identity import identity

PLACE = "place"
"""Name of the attribute that names where a product lies, such as results/rollouts/tiny/grpo."""
_APART = {PARENTS, PLACE, "digest", "settings", "versions", "numerics"}
"""Attributes that do not say what a product is."""


@dataclass(frozen=True)
class Product:
    """A file or folder that a stage made, or that a user gave: a Parquet, NetCDF or JSON file, a checkpoint, a feature
    store, a folder of companions, or a folder of Parquet tables."""

    path: Path
    recorded: tuple[str, Mapping[str, str]] | None = None
    """Identity and provenance attributes of a product that does not exist here but is in the record of a bundle."""

    @cached_property
    def attributes(self) -> dict[str, str]:
        """Provenance attributes; empty if it carries none. Raises ContractError if it is missing, cannot be read, or
        has a file that was made for another place."""
        if self.recorded:
            return dict(self.recorded[1])
        if not self.path.exists():
            raise ContractError(absent(self.path))
        place, attributes = _place(self.path), {}
        for part in stating_files(self.path):
            attributes = read_provenance(part)
            made_as = attributes.get(PLACE)
            if place and made_as and not Path(place).is_relative_to(made_as):
                raise ContractError(f"{part}: was made as {made_as}, and lies in the place of another; {remedy(part)}")
        return attributes

    @cached_property
    def identity(self) -> str:
        """Digest of the product with its provenance (`cocal_study.provenance.identity`)."""
        return self.recorded[0] if self.recorded else identity(self.path)

    @property
    def facts(self) -> dict[str, str]:
        """The stage that made the product, and its backbone, algorithm, step and so on as far as they apply."""
        return {name: text for name, text in self.attributes.items() if name not in _APART}

    @property
    def parents(self) -> dict[Path, str]:
        """Identity that each parent had when the product was made, by its path."""
        recorded = json.loads(self.attributes.get(PARENTS, "{}"))
        root = Path(os.path.relpath(_root(self.path)))
        return {Path(os.path.normpath(root / place)): identity for place, identity in recorded.items()}


def placed(output: str | Path) -> dict[str, str]:
    """The attribute that names the place of a product; none for a product outside `results/`."""
    place = _place(Path(output))
    return {PLACE: place} if place else {}


def trace(*paths: str | Path, keep: Callable[[Product], bool] = lambda product: True) -> Iterator[tuple[int, Product]]:
    """Yield products and those of their ancestors that `keep` selects, depth first, each once, with its distance from
    the product.

    An ancestor that has been deleted, to free space, ends its line, unless a record says what it was (`write_record`).
    Raises ContractError if an ancestor is not the one that the product was made from.
    """
    known: dict[Path, Product] = {}

    def family(product: Product, distance: int, record: Mapping[Path, Product]) -> Iterator[tuple[int, Product]]:
        known[product.path] = product
        yield distance, product
        for path, recorded in product.parents.items():
            if not path.exists() and path not in record:
                continue
            new, parent = path not in known, known.get(path) or (Product(path) if path.exists() else record[path])
            if parent.identity != recorded and parent.attributes is not None:  # raises if it is misplaced
                raise ContractError(
                    f"{product.path}: was made from {path} when its digest was {recorded}, but now it is "
                    f"{parent.identity}; {remedy(product.path, f'delete {product.path} and rerun')}"
                )
            if new and keep(parent):
                yield from family(parent, distance + 1, record)

    for path in paths:
        product = Product(Path(os.path.relpath(path)))
        if product.path not in known:
            yield from family(product, 0, _record(product.path))


RECORD = "results/lineage.json"
"""File of a bundle with the provenance of all products that the bundle leaves out."""


def write_record(folder: Path, products: Iterable[Product], attributes: Mapping[str, str]) -> None:
    """Write a file with identity and provenance attributes of each product, by its place, into a folder."""
    record = {
        os.path.relpath(product.path, _root(product.path)): [product.identity, product.attributes]
        for product in products
    }
    write_document(folder / RECORD, {"products": dict(sorted(record.items()))}, attributes)


def _record(path: Path) -> dict[Path, Product]:
    """The products of the record that lies beside a product, by their paths; none without a record."""
    root = Path(os.path.relpath(_root(path)))
    file = root / RECORD
    if not file.exists():
        return {}
    try:
        products = read_document(file)["products"].items()
        places = ((Path(os.path.normpath(root / place)), recorded) for place, recorded in products)
        return {path: Product(path, (str(identity), {**attributes})) for path, (identity, attributes) in places}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ContractError(unreadable(file, "record of products", error)) from None


def _root(path: Path) -> Path:
    """The folder that holds the `results/` in which a product lies; for a product elsewhere, its own folder."""
    place = path.absolute()
    return next((folder.parent for folder in place.parents if folder.name == "results"), place.parent)


def _place(path: Path) -> str | None:
    """The path of a product relative to the folder that holds its `results/`; None for a product elsewhere."""
    place = os.path.relpath(path.absolute(), _root(path))
    return place if place.startswith("results/") else None


FACTS = ("backbone", "algorithm", "step", "prompt_format", "dataset", "experience", "source_step", "validation_step")
"""Facts that a product shares with its sources. `experience` is the kind of responses that companions learn from, and
the steps are those of a companion's prefix."""


class Source:
    """A file or folder from which a stage makes its product, and facts that it must state (`must`) although the
    product's differ, or the product lacks them."""

    def __init__(self, path: str | Path, **must: str | int):
        self.path = Path(path)
        self.must = {name: str(value) for name, value in must.items()}


def descent(
    output: str | Path, stage: str, settings: Any, sources: Iterable[Source], **facts: str | int | None
) -> dict[str, str]:
    """Provenance attributes of a product of the command `stage`, with `settings` (a slice of the configuration) and the
    digests of its sources. A source that states no facts, such as a user's own file, is taken as it is. Facts that are
    None are left out. Raises ContractError if a source is missing, or states another fact than the product needs; the
    message names both."""
    attributes, sources = provenance(stage, settings, **facts), list(sources)
    for source in sources:
        stated = Product(source.path).facts
        for name, wanted in ({n: attributes[n] for n in FACTS if n in attributes} | source.must).items():
            if stated.get(name, wanted) != wanted:
                raise ContractError(
                    f"{output}: cannot be made from {source.path}, whose {name.replace('_', ' ')} is {stated[name]}, "
                    f"not {wanted}"
                )
    root = _root(Path(output))
    parents = {os.path.relpath(source.path.absolute(), root): identity(source.path) for source in sources}
    return attributes | {PARENTS: canonical(parents)} | placed(output)


def inherited(path: str | Path, *names: str) -> dict[str, str]:
    """The facts of these names that a source states, for the product that is made from it."""
    stated = Product(Path(path)).facts
    return {name: stated[name] for name in names if name in stated}


def identities(attributes: Mapping[str, str]) -> list[str]:
    """The digests of a product's sources, wherever these lie, for the digest of a run that may resume."""
    return sorted(json.loads(attributes[PARENTS]).values())
