"""Reading and writing of JSON files with their provenance."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cocal.errors import ContractError
from cocal.store.atomic import atomic_path
from cocal.store.damage import absent, unreadable
from cocal.store.seal import BLANK, KEY, check_seal, seal

_PROVENANCE = "provenance"


def write_document(path: str | Path, content: Mapping[str, Any], attributes: Mapping[str, str]) -> None:
    """Write a JSON object atomically, with its provenance attributes under the key `provenance`, and seal it."""
    sealed = {**content, _PROVENANCE: {**attributes, KEY: BLANK}}
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
    content = _object(path, maker)
    check_seal(path)
    content.pop(_PROVENANCE, None)
    return content


def read_attributes(path: str | Path) -> dict[str, str]:
    """Provenance attributes of a JSON file; empty if it carries none.

    Raises:
        ContractError: if the file is missing or is no JSON object.
    """
    attributes = dict(_object(path, "the rule that makes it").get(_PROVENANCE) or {})
    attributes.pop(KEY, None)
    return attributes


def _object(path: str | Path, maker: str) -> dict[str, Any]:
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ContractError(absent(path, maker=maker)) from None
    except (OSError, ValueError) as error:
        raise ContractError(unreadable(path, "JSON file", error)) from None
    if not isinstance(content, dict):
        raise ContractError(unreadable(path, "JSON file", f"it holds a {type(content).__name__}, not an object"))
    return content
