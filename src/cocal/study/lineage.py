"""The lineage of products: a product and its sources must agree on backbone, policy, step, prompts and set."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cocal.errors import ContractError
from cocal.store import provenance
from cocal.store.lineage import PARENTS, Product, parents

FACTS = (
    "backbone",
    "algorithm",
    "step",
    "prompt_format",
    "dataset",
    "experience",
    "source_step",
    "validation_step",
)
"""Facts that a product shares with its sources. `experience` is the kind of responses that companions learn from, and
the steps are those of a companion's prefix."""


class Source:
    """A file or folder from which a stage makes its product.

    Args:
        path: Its path.
        must: Facts in which it has to differ from the product, or that the product does not have.
    """

    def __init__(self, path: str | Path, **must: str | int):
        self.path = Path(path)
        self.must = {name: str(value) for name, value in must.items()}


def descent(
    output: str | Path, stage: str, settings: Any, sources: Iterable[Source], **facts: str | int | None
) -> dict[str, str]:
    """Provenance attributes of a product, with the digests of its sources.

    Args:
        output: Path of the product.
        stage: Command that makes it.
        settings: The slice of the configuration that the command uses.
        sources: Files and folders that it is made from; one that states no facts, such as a user's own file, is taken
            as it is.
        facts: Facts of the product, such as its backbone; None values are left out.

    Raises:
        ContractError: if a source states another fact than the product needs; the message names both.
    """
    attributes, sources = provenance(stage, settings, **facts), list(sources)
    for source in sources:
        stated = Product(source.path).facts
        for name, wanted in ({n: attributes[n] for n in FACTS if n in attributes} | source.must).items():
            if stated.get(name, wanted) != wanted:
                raise ContractError(
                    f"{output}: cannot be made from {source.path}, whose {name.replace('_', ' ')} is {stated[name]}, "
                    f"not {wanted}"
                )
    return attributes | parents(output, [source.path for source in sources])


def inherited(path: str | Path, *names: str) -> dict[str, str]:
    """The facts of these names that a source states, for the product that is made from it."""
    stated = Product(Path(path)).facts
    return {name: stated[name] for name in names if name in stated}


def identities(attributes: Mapping[str, str]) -> list[str]:
    """The digests of a product's sources, wherever these lie, for the digest of a run that may resume."""
    return sorted(json.loads(attributes[PARENTS]).values())
