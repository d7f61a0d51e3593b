"""A bundle: what of a study others reuse, which of its files it holds, and how it is checked.

Its files have the places that they have in the study. `provenance.json` lists all of them with their digests
(`cocal.store.listing`), and says who made them.
"""

import json
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from cocal.errors import ContractError
from cocal.store.content import PROVENANCE
from cocal.store.files import PARENTS, read_provenance
from cocal.store.listing import is_inside, whole_files
from cocal.store.provenance import commit
from cocal_study.config.study import Study
from cocal_study.planning.comparisons import CUBES, RECALIBRATED, cube_settings, predictions_of
from cocal_study.planning.digests import Maker
from cocal_study.planning.results import metrics_file, resamples_file

STAGE, STUDY_FILE = "publish", "study.yaml"
WITHHELD = ("responses", "rollouts", "questions", "answered")
"""Kinds of an exhibit's inputs that a bundle leaves out: texts of questions and of responses, and what is too large."""


class CubeJob(NamedTuple):
    """The job of one metric cube.

    Attributes:
        predictions: The tables that it reads.
        outputs: The cube, and its resamples if it has them.
        fields: What its stage is made of (`cocal_study.stages.metrics.Metrics`).
    """

    predictions: list[str]
    outputs: list[str]
    fields: dict[str, Any]


def cube_jobs(study: Study, wanted: Iterable[str]) -> list[CubeJob]:
    """The jobs of all cubes that are among the wanted files, or whose resamples are."""
    wanted, found = {*wanted}, []
    for backbone in study.backbones:
        for kind, cube in CUBES.items():
            outputs = [metrics_file(backbone, kind)] + [resamples_file(backbone, kind)] * (kind != RECALIBRATED)
            if wanted.isdisjoint(outputs):
                continue
            predictions = predictions_of(study, backbone, cube)
            places = {"predictions": predictions, **dict(zip(("output", "resamples"), outputs, strict=False))}
            found.append(CubeJob(predictions, outputs, cube_settings(study, backbone, cube) | places))
    return found


class Bundle(NamedTuple):
    """A bundle whose files are whole.

    Attributes:
        files: SHA-256 of each file by its place.
        maker: Who published it.
        wrong: By question set, how many of its rows are known to be wrong.
    """

    files: dict[str, str]
    maker: Maker
    wrong: dict[str, int]

    def holds(self, place: str) -> bool:
        """True if the bundle has a file or folder at a place."""
        return any(PurePosixPath(file).is_relative_to(place) for file in self.files)


def open_bundle(folder: Path) -> Bundle:
    """Check every file of a bundle.

    Raises:
        ContractError: if the folder is no bundle, or a file of it is missing, has changed, or lies elsewhere; the
            message names it.
    """
    files, stated = whole_files(folder, STAGE)
    try:
        settings = json.loads(stated["settings"])
        return Bundle(files, Maker.model_validate(settings["made_by"]), {**settings["wrong"]})
    except (KeyError, TypeError, ValueError) as error:
        raise ContractError(
            f"{folder / PROVENANCE}: does not say who made it ({error}); get the bundle again"
        ) from None


def check_parents(file: Path) -> None:
    """Refuse a file whose provenance names a parent outside of the results.

    Raises:
        ContractError: if it does.
    """
    for place in json.loads(read_provenance(file).get(PARENTS, "{}")):
        if not (is_inside(place) and place.startswith("results/")):
            raise ContractError(f"{file}: says that it was made from {place!r}, which leaves the bundle; do not use it")


def commit_of(result: Path) -> str:
    """What is known of the commit of the code that made a result: files state versions, and a bundle its commit."""
    for folder in result.absolute().parents:
        if (folder / PROVENANCE).exists() and read_provenance(folder / PROVENANCE).get("stage") == STAGE:
            return f"{open_bundle(folder).maker.commit} (of the code that published the bundle)"
    return f"{commit()} (of this code; files state versions alone)"
