"""Provenance of files: stage, settings' digest, versions, numerics, but no time, so that equal runs give equal
files."""

import hashlib
import json
import platform
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic import BaseModel

from cocal.runtime.numerics import active

_PACKAGES = ("cocal", "numpy", "pandas", "pyarrow", "torch", "transformers", "trl", "xarray")


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def canonical(settings: Any) -> str:
    """JSON text with sorted keys and no spaces, the same for equal settings: models, mappings, lists or scalars."""
    return json.dumps(_plain(settings), sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def digest(settings: Any) -> str:
    """First 16 hexadecimal digits of the SHA-256 of the canonical settings."""
    return hashlib.sha256(canonical(settings).encode()).hexdigest()[:16]


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a result may depend on."""
    packages = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            packages[package] = version(package)
    return packages


def provenance(stage: str, settings: Any, **facts: str | int | None) -> dict[str, str]:
    """Provenance attributes for a file: the command that makes it (`stage`), such as "responses", the slice of the
    configuration that it uses, and facts such as study, backbone, algorithm and step, unless they are None."""
    attributes = {"stage": stage, "digest": digest(settings), "settings": canonical(settings)}
    attributes["versions"] = canonical(versions())
    attributes["numerics"] = active()
    attributes |= {key: str(value) for key, value in facts.items() if value is not None}
    return attributes
