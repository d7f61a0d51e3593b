"""Digests of a study's main outputs, by which two machines can tell whether they computed the same bytes."""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from cocal.errors import ContractError
from cocal.runtime.numerics import obstacle, processor
from cocal.settings.base import Model
from cocal.store.provenance import versions
from cocal_study.provenance.identity import content_digest
from cocal_study.provenance.lineage import Product

STAGES = {
    "questions": "questions/*.parquet",
    "policies": "policies/*/*/step-*",
    "rollouts": "rollouts/*/*",
    "responses": "responses/*/*/step-*/*/*.parquet",
    "features": "features/**/*.zarr",
    "companions": "companions/*/*",
    "predictions": "predictions/*/*/*.parquet",
    "metrics": "metrics/*.nc",
    "tables": "tables/*.csv",
    "figures": "figures/*.csv",
}
"""Pattern of each stage's outputs within the results, in the order in which they are computed."""
MEASURED = {"tables/cost.csv", "tables/time_to_confidence.csv"}
"""Outputs that hold times of the machine, which differ from run to run."""
_NAMED = 6
"""Number of outputs of a stage that a verdict names."""

Digests = dict[str, dict[str, str]]
"""Digest of each output, by stage and by path within the results."""


class Maker(Model):
    """Who made the outputs."""

    commit: str
    """Commit of CoCal, or "unknown" outside a checkout."""
    numerics: str
    """The study's numerics, as the outputs state them."""
    processor: str
    obstacle: str = ""
    """Why the machine cannot compute portable numerics (`cocal.runtime.numerics.obstacle`); empty where it can."""
    versions: dict[str, str]
    """Versions of Python and of the packages that a result may depend on."""


class StudyDigests(Model):
    """A study's digests, as a file keeps them."""

    study: str
    made_by: Maker
    digests: Digests


def main_outputs(results: Path) -> Iterator[tuple[str, Path]]:
    """Stage and path of each output of a study that must be the same on every machine, stage by stage."""
    for stage, pattern in STAGES.items():
        for path in sorted(results.glob(pattern)):
            if not path.name.startswith(".") and str(path.relative_to(results)) not in MEASURED:
                yield stage, path


def digests_of(results: Path) -> Digests:
    """Digests of a study's main outputs. Raises ContractError if the results hold no tables, so that the study is not
    finished, or if an output is damaged."""
    outputs = list(main_outputs(results))
    if not any(stage == "tables" for stage, _ in outputs):
        raise ContractError(f"{results}: it holds no finished study; run snakemake first")
    digests: Digests = {}
    for stage, path in outputs:
        digests.setdefault(stage, {})[str(path.relative_to(results))] = content_digest(path)
    return digests


def commit() -> str:
    """The commit of the checkout that this package lies in, with "-dirty" after it if files have been changed since;
    "unknown" if the package is installed without one."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def maker_of(results: Path) -> Maker:
    """This version of CoCal, this machine, and the numerics that a study's results state."""
    cubes = sorted(results.glob(STAGES["metrics"]))
    return Maker(
        commit=commit(),
        # files did not always state their numerics, which were native then
        numerics=Product(cubes[0]).attributes.get("numerics", "native") if cubes else "native",
        processor=processor(),
        obstacle=obstacle(),
        versions=versions(),
    )


def verdict(here: StudyDigests, there: StudyDigests, source: str) -> str:
    """Say whether two machines computed the same bytes, what differs by stage, and why. `here` are the present results;
    `there` are those made elsewhere or earlier, whose digests are in the file `source`. Raises ContractError if `there`
    belongs to another study, or lists outputs that are missing here."""
    if here.study != there.study:
        raise ContractError(
            f"{source}: these are digests of the study {there.study}, and the results are those of {here.study}; "
            "compare with the digests of the same study"
        )
    known, present = _flat(there.digests), _flat(here.digests)
    if not known:
        raise ContractError(f"{source}: it lists no output, so there is nothing to compare; write it by --write")
    if missing := sorted(known.keys() - present.keys()):
        raise ContractError(
            f"{source}: {_listed(missing)} of it {'are' if len(missing) > 1 else 'is'} missing from the results; run "
            "snakemake to its end first"
        )
    maker = there.made_by
    origin = f"{source} (commit {maker.commit}, {maker.numerics} numerics, on {maker.processor})"
    changed = {
        stage: names
        for stage in STAGES
        if (names := [name for name, value in there.digests.get(stage, {}).items() if present[name] != value])
    }
    lines = [f"This machine computed the same bytes: all {len(known)} outputs are those of {origin}."]
    if changed:
        count = sum(map(len, changed.values()))
        lines = [f"These results have other bytes: {count} of {len(known)} outputs differ from {origin}."]
    if more := sorted(present.keys() - known.keys()):
        lines.append(f"{_listed(more)} of these results stand in no line of {source}; they were not compared.")
    for stage, names in changed.items():
        lines.append(f"  {stage}: {len(names)} of {len(there.digests[stage])} differ: {_listed(names)}")
    if changed:
        lines += causes(here.made_by, maker)
    return "\n".join(lines)


def causes(here: Maker, there: Maker) -> list[str]:
    """Sentences about what else differs between the makers."""
    packages = sorted(here.versions.keys() | there.versions.keys())
    versions = [
        f"{name} {there.versions.get(name, 'none')} there and {here.versions.get(name, 'none')} here"
        for name in packages
        if here.versions.get(name) != there.versions.get(name)
    ]
    said = [f"Versions differ: {'; '.join(versions)}."] if versions else []
    if here.commit != there.commit:
        said.append(
            f"The code differs, if the commits {there.commit} there and {here.commit} here do in what computes."
        )
    if "native" in (here.numerics, there.numerics):
        said.append(
            f"The numerics are {there.numerics} there and {here.numerics} here; only portable numerics give the "
            "same bytes on another processor."
        )
        said += [
            f"The machine {place} computed natively because {maker.obstacle}."
            for place, maker in (("there", there), ("here", here))
            if maker.numerics == "native" and maker.obstacle
        ]
    same = (
        "Commit, versions and numerics are the same, so the cause is the machine, a changed file, or a changed setting."
    )
    return said or [same]


def _flat(digests: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {name: value for stage in digests.values() for name, value in stage.items()}


def _listed(names: list[str]) -> str:
    """At most `_NAMED` names, and how many there are beyond."""
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
