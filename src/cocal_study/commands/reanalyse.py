"""Tables and figures rebuilt from the predictions of a bundle, without the results of the study."""

import argparse
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cocal.errors import ConfigError, ContractError
from cocal.runtime.machine import processors
from cocal.runtime.numerics import environment, obstacle
from cocal.store import atomic_path, label_folder, provenance
from cocal.store.folders import file_digest
from cocal_study.commands.catalogue.stages import STAGES
from cocal_study.commands.gather import GATHERED, reanalyse
from cocal_study.config.study import load_study
from cocal_study.exhibits.base.exhibit import Exhibit
from cocal_study.exhibits.base.registry import exhibits_of
from cocal_study.planning.bundle import (
    STUDY_FILE,
    WITHHELD,
    Bundle,
    check_parents,
    cube_jobs,
    cube_outputs,
    open_bundle,
)
from cocal_study.planning.digests import causes, maker_of
from cocal_study.provenance.lineage import RECORD
from cocal_study.stages.metrics import Metrics
from cocal_study.store.numbers import BESIDE

_APART = ("results/metrics/", "results/resamples/", "results/tables/", "results/figures/", "companions/", "workflow/")
"""Places in a bundle of what is made anew, or of what no exhibit reads."""


def run_reanalyse(options: argparse.Namespace) -> None:
    """Check a bundle, rebuild its cubes and exhibits, and print which have the same bytes and which cannot be rebuilt;
    given folders of gathered replicates, recompute their numbers from their confidences and print the verdict.

    As with `cocal digests`, differing bytes are no error. Raises ContractError if a file of the bundle is missing or
    has changed.
    """
    if all((folder / GATHERED).exists() for folder in options.bundle):
        study, paper = load_study(options.study), options.study.parent / "paper"
        return reanalyse(options.bundle, study, paper, options.output)
    if len(options.bundle) > 1:
        raise ConfigError(f"{options.bundle[1]}: a bundle is reanalysed alone; give several folders of replicates")
    (source,) = options.bundle
    bundle = open_bundle(source)
    if not bundle.holds(STUDY_FILE):
        raise ContractError(f"{source / STUDY_FILE}: the bundle lists no study; get it again")
    made_in = atomic_path(options.output) if options.output else TemporaryDirectory(prefix="cocal-reanalyse-")
    with made_in as place_of_all:
        folder = Path(place_of_all)
        folder.mkdir(exist_ok=True)
        for place in bundle.files:
            if place != STUDY_FILE and ("/" not in place or place.startswith(_APART) or place == RECORD):
                continue
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / place, folder / place)
            if place.startswith("results/"):
                check_parents(folder / place)
        study = load_study(folder / STUDY_FILE)
        with chdir(folder):  # exhibits look for gathered files there
            exhibits = exhibits_of(study, bundle.wrong)
        read = [file for exhibit in exhibits for files in exhibit.inputs.values() for file in files]
        jobs = [job for job in cube_jobs(study, read) if all(map(bundle.holds, job["predictions"]))]
        made = [place for job in jobs for place in cube_outputs(job)]
        reasons = {_name(exhibit): _reason(exhibit, bundle, made) for exhibit in exhibits}
        rebuilt = [exhibit for exhibit in exhibits if not reasons[_name(exhibit)]]
        count = options.processes or processors()
        numerics = "native" if obstacle() else bundle.maker.numerics
        os.environ.update({**environment(numerics), "OMP_NUM_THREADS": "1"})  # as Snakemake does for its jobs
        with ProcessPoolExecutor(count, get_context("spawn"), os.chdir, (folder.absolute(),)) as pool:
            for failure in pool.map(_made, jobs):
                if failure:
                    raise ContractError(f"{source}: {failure}")
            words = [[*exhibit.arguments, "--output", exhibit.outputs[0]] for exhibit in rebuilt]
            for exhibit, failure in zip(rebuilt, pool.map(_made, words), strict=True):
                reasons[_name(exhibit)] = failure
        outputs = {_name(exhibit): exhibit.outputs for exhibit in rebuilt if not reasons[_name(exhibit)]}
        places = [place for files in (made, *outputs.values()) for place in files]
        other = [place for place in places if bundle.files.get(place) != file_digest(folder / place)]
        print("\n".join(_verdict(made, outputs, other, reasons)))
        if other:
            print("\n".join(causes(maker_of(folder / "results"), bundle.maker)))
        if options.output:
            for sealed in (folder / "results").rglob(f"*{BESIDE}"):  # the list of the folder seals all of it
                sealed.unlink()
            label_folder(folder, provenance("reanalyse", {"bundle": bundle.files}, study=study.study))


def _name(exhibit: Exhibit) -> str:
    """Folder and name of an exhibit, because a table and a figure may have the same name."""
    return exhibit.outputs[0].removeprefix("results/").rpartition(".")[0]


def _reason(exhibit: Exhibit, bundle: Bundle, made: Iterable[str]) -> str:
    """Why an exhibit cannot be rebuilt; empty if it can."""
    said = (WITHHELD[kind] for kind in exhibit.inputs if kind in WITHHELD)
    if kinds := dict.fromkeys(said):
        return f"needs {' and '.join(kinds)}, which a bundle leaves out"
    files = [file for given in exhibit.inputs.values() for file in given]
    missing = [file for file in files if file not in made and not bundle.holds(os.path.normpath(file))]
    return f"needs {missing[0]}, which this bundle does not hold" if missing else ""


def _made(job: dict[str, Any] | Sequence[str]) -> str:
    """Make a metric cube from its fields, or an exhibit from its words, and return the error message, if any, or ""."""
    from cocal_study.commands.exhibits import run_exhibit

    try:
        if isinstance(job, dict):
            Metrics(**job).run()
        else:
            parser = argparse.ArgumentParser()
            STAGES["exhibit"].add_to(parser)
            run_exhibit(parser.parse_args(job))
    except (ConfigError, ContractError) as error:
        return str(error)
    return ""


def _verdict(
    made: Sequence[str], outputs: Mapping[str, Sequence[str]], other: Sequence[str], reasons: Mapping[str, str]
) -> Iterator[str]:
    """Sentences on what was rebuilt, namely metric cubes (`made`) and the outputs of exhibits by name, which of these
    files have other bytes, and why exhibits were not rebuilt."""
    files = len(made) + sum(map(len, outputs.values()))
    yield f"Rebuilt {len(outputs)} of {len(reasons)} tables and figures, and {len(made)} files of metrics before them."
    yield f"{files - len(other)} of {files} files have the same bytes as in the bundle."
    yield from (f"  other bytes: {place}" for place in other)
    yield from (f"  not rebuilt: {name}: it {reason}" for name, reason in reasons.items() if reason)
