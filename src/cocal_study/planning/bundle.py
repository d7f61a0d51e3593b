"""A bundle, the part of a study that others reuse: which files it holds, and how it is checked.

Its files have the places that they have in the study. `provenance.json` lists all of them with their digests
(`cocal_study.provenance.whole_folders`), and says who made them.
"""

import json
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from cocal.errors import ContractError
from cocal.store.origin import PARENTS, PROVENANCE, read_provenance
from cocal_study.config.study import Study
from cocal_study.planning.comparisons import CUBES, cube_fields
from cocal_study.planning.digests import Maker, commit
from cocal_study.provenance.whole_folders import is_inside, whole_files

STAGE, STUDY_FILE = "publish", "study.yaml"
WITHHELD = {name: name for name in ("responses", "rollouts", "questions")}
WITHHELD |= {"answered": "responses", "asked": "questions", "lengths": "responses"}
"""Kinds of an exhibit's inputs that a bundle leaves out, each with its name in messages: texts of questions and of
responses, and files that are too large."""


def cube_jobs(study: Study, wanted: Iterable[str]) -> list[dict[str, Any]]:
    """The jobs of all cubes that are among the wanted files, or whose resamples are, as `cube_fields` gives them."""
    wanted = {*wanted}
    jobs = [cube_fields(study, backbone, kind) for backbone in study.backbones for kind in CUBES]
    return [job for job in jobs if not wanted.isdisjoint(cube_outputs(job))]


def cube_outputs(job: dict[str, Any]) -> list[str]:
    """A cube, and its resamples if it has them."""
    return [job[name] for name in ("output", "resamples") if name in job]


class Bundle(NamedTuple):
    """A bundle whose files have been checked."""

    files: dict[str, str]
    """SHA-256 of each file by its place."""
    maker: Maker
    """Who published it."""
    wrong: dict[str, int]
    """By question set, how many of its rows are known to be wrong."""

    def holds(self, place: str) -> bool:
        """True if the bundle has a file or folder at a place."""
        return any(PurePosixPath(file).is_relative_to(place) for file in self.files)


def open_bundle(folder: Path) -> Bundle:
    """Check every file of a bundle. Raises ContractError if the folder is no bundle, or a file of it is missing, has
    changed, or lies elsewhere; the message names it."""
    files, stated = whole_files(folder, STAGE)
    try:
        settings = json.loads(stated["settings"])
        return Bundle(files, Maker.model_validate(settings["made_by"]), {**settings["wrong"]})
    except (KeyError, TypeError, ValueError) as error:
        why = f"does not say who made it ({error}); get the bundle again"
        raise ContractError(f"{folder / PROVENANCE}: {why}") from None


def check_parents(file: Path) -> None:
    """Refuse a file whose provenance names a parent outside of the results. Raises ContractError if it does."""
    for place in json.loads(read_provenance(file).get(PARENTS, "{}")):
        if not (is_inside(place) and place.startswith("results/")):
            raise ContractError(f"{file}: says that it was made from {place!r}, which leaves the bundle; do not use it")


def commit_of(result: Path) -> str:
    """What is known of the commit of the code that made a result: files state versions, and a bundle its commit."""
    for folder in result.absolute().parents:
        if (folder / PROVENANCE).exists() and read_provenance(folder / PROVENANCE).get("stage") == STAGE:
            return f"{open_bundle(folder).maker.commit} (of the code that published the bundle)"
    return f"{commit()} (of this code; files state versions alone)"
