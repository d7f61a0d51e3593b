"""Reading and writing of JSON files with their provenance."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cocal.errors import ContractError
from cocal.store.atomic import atomic_path
from cocal.store.damage import absent, unreadable
from cocal.store.seal import BLANK, KEY, check_seal, seal

PROVENANCE_KEY = "provenance"
"""Name of the member of a JSON object that holds the provenance attributes."""


def write_document(path: str | Path, content: Mapping[str, Any], attributes: Mapping[str, str]) -> None:
    """Write a JSON object atomically, with its provenance attributes under the key "provenance", and seal it."""
    sealed = {**content, PROVENANCE_KEY: {**attributes, KEY: BLANK}}
    with atomic_path(path) as partial:
        partial.write_text(json.dumps(sealed, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        seal(partial)


def read_document(path: str | Path, maker: str = "the rule that makes it") -> dict[str, Any]:
    """The content of a JSON object, without its provenance; the file may be a user's own, without any.

    Args:
        maker: Rule or command that makes the file, for the message if it is missing.

    Raises:
        ContractError: if the file is missing, has changed since it was written, or is no JSON object.
    """
    content = read_object(path, maker)
    check_seal(path)
    content.pop(PROVENANCE_KEY, None)
    return content


def read_object(path: str | Path, maker: str = "the rule that makes it") -> dict[str, Any]:
    """A JSON object as it stands, with its provenance; a seal is not compared (`read_document`)."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ContractError(absent(path, maker=maker)) from None
    except (OSError, ValueError) as error:
        raise ContractError(unreadable(path, "JSON file", error)) from None
    if not isinstance(content, dict):
        raise ContractError(unreadable(path, "JSON file", f"it holds a {type(content).__name__}, not an object"))
    return content
