"""The one study that a results folder belongs to: tables and figures have the same names in all studies."""

import json
from functools import cache
from pathlib import Path

from cocal.errors import ConfigError, ContractError
from cocal.store.atomic import write_text
from cocal.store.damage import unreadable
from cocal.store.origin import read_provenance

OWNER = "study.json"
"""Name of the file in a results folder that names its study."""


def owner_of(results: str | Path) -> str | None:
    """The study that a results folder belongs to; None if no study has claimed it. Raises ContractError if the file
    that says so cannot be read."""
    file = Path(results) / OWNER
    if not file.exists():
        return None
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["study"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ContractError(unreadable(file, "JSON file that names a study", error)) from None


def refuse_other_study(results: str | Path, study: str, source: str) -> None:
    """Check that `results` belongs to `study`, whose configuration lies in the file `source`, or to no study yet.
    Raises ConfigError if the folder belongs to another study, whose tables and figures this one would overwrite."""
    owner = owner_of(results)
    if owner not in (None, study):
        raise ConfigError(
            f"{Path(results).absolute()} belongs to the study {owner!r}, whose tables and figures the study {study!r} "
            f"would overwrite: run it in a folder of its own with "
            f"`snakemake --directory studies/{study} --configfile {source} ...`, "
            f"or delete the results of {owner!r} with `make clean`"
        )


@cache
def refuse_gaps(results: str) -> None:
    """Refuse rollouts that lack the table of a step: Snakemake sees their folder, but not what is in it. Raises
    ContractError if a folder lacks one of the steps that its tables were made with, or cannot be read."""
    for folder in sorted(Path(results, "rollouts").glob("*/*")):
        tables = {path.stem: path for path in sorted(folder.glob("step-*.parquet"))}
        if not tables:
            continue
        made = json.loads(read_provenance(next(iter(tables.values()))).get("settings", "{}"))
        last = made.get("policy", {}).get("steps") or int(max(tables).removeprefix("step-"))
        if missing := [name for name in (f"step-{step:05d}" for step in range(1, last + 1)) if name not in tables]:
            raise ContractError(
                f"{folder / missing[0]}.parquet: the table of this rollout step is missing; put it back, or delete "
                f"{folder}, which is then made again with all that follows from it"
            )


def claim(results: str | Path, study: str, source: str) -> None:
    """Write, atomically, that `results` belongs to `study`. Raises ConfigError if it belongs to another study."""
    refuse_other_study(results, study, source)
    if owner_of(results) is None:
        write_text(Path(results) / OWNER, json.dumps({"study": study}) + "\n")
