"""The one study that a results folder belongs to: tables and figures have the same names in all studies."""

import json
from pathlib import Path

from cocal.errors import ConfigError, ContractError
from cocal.store.atomic import write_text
from cocal.store.damage import unreadable

OWNER = "study.json"
"""Name of the file in a results folder that names its study."""


def owner_of(results: str | Path) -> str | None:
    """The study that a results folder belongs to; None if no study has claimed it.

    Raises:
        ContractError: if the file that says so cannot be read.
    """
    file = Path(results) / OWNER
    if not file.exists():
        return None
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["study"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ContractError(unreadable(file, "JSON file that names a study", error)) from None


def refuse_other_study(results: str | Path, study: str, source: str) -> None:
    """Check that `results` belongs to `study` or to no study yet.

    Args:
        source: Configuration file of the study, which the error message names.

    Raises:
        ConfigError: if the folder belongs to another study, whose tables and figures this one would overwrite.
    """
    owner = owner_of(results)
    if owner not in (None, study):
        raise ConfigError(
            f"{Path(results).absolute()} belongs to the study {owner!r}, whose tables and figures the study {study!r} "
            f"would overwrite: run it in a folder of its own with "
            f"`snakemake --directory studies/{study} --configfile {source} ...`, "
            f"or delete the results of {owner!r} with `make clean`"
        )


def claim(results: str | Path, study: str, source: str) -> None:
    """Write, atomically, that `results` belongs to `study`.

    Raises:
        ConfigError: if it belongs to another study.
    """
    refuse_other_study(results, study, source)
    if owner_of(results) is None:
        write_text(Path(results) / OWNER, json.dumps({"study": study}) + "\n")
