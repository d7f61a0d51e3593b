"""A study as a bundle that others reuse: copies of what they need, descriptions of it, and the list of all files."""

import argparse
import json
import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from cocal.errors import ConfigError, ContractError
from cocal.store import atomic_path, label_folder, provenance, write_text
from cocal.store.damage import absent
from cocal.store.seals import check_seal
from cocal_study.commands.hub import RESULTS, publish_companion, save_companions
from cocal_study.config.study import Study, load_study
from cocal_study.exhibits.base.exhibit import OF_REPOSITORY, Exhibit
from cocal_study.exhibits.base.registry import exhibits_of
from cocal_study.planning import results
from cocal_study.planning.bundle import STAGE, STUDY_FILE, WITHHELD, cube_jobs, cube_outputs
from cocal_study.planning.digests import Maker, maker_of
from cocal_study.planning.replicates import write_study
from cocal_study.provenance.lineage import Product, trace, write_record
from cocal_study.provenance.owner import OWNER, owner_of
from cocal_study.questions.loaders import counted
from cocal_study.questions.registry import known_wrong, references, registry_of
from cocal_study.store.numbers import check_beside


def run_publish(options: argparse.Namespace) -> None:
    """Copy what others reuse into a folder, describe it, and list its files; with --companion, save only the main
    companion with its data. Raises ConfigError if the results belong to another study, or seeds are chosen for a whole
    bundle, and ContractError if a file is missing (the study is not finished) or has changed since it was written."""
    repository = options.snakefile.absolute().parent
    study = counted(load_study(options.study), repository)
    if (owner := owner_of(options.results)) != study.study:
        raise ConfigError(
            f"{options.results}: holds the results of {owner or 'no study'}, but {options.study} is {study.study}; "
            "name the study's file by --study, and the folder of its results by --results"
        )
    if options.seeds and not options.companion:
        raise ConfigError("--seeds: chooses members of the companion that --companion writes, so give both")
    if options.companion:
        publish_companion(study, options.results, options.folder, options.licence, options.seeds)
        return
    registry = registry_of(study.question_sets.registered, repository / study.sources.registry)
    wrong = known_wrong(study.question_sets.registered, registry)
    exhibits = exhibits_of(study, wrong, str(repository))
    places = _places(study, exhibits)
    copied = {place: options.results / Path(place).relative_to(RESULTS) for place in places}
    family = [product for _, product in trace(*(path for path in copied.values() if path.name != OWNER))]
    _check_study(study, family, options.study)
    copied |= {os.path.relpath(file, repository): file for file in _of_repository(exhibits, repository)}
    copied |= {"Snakefile": options.snakefile}
    made_by = maker_of(options.results)
    made = provenance(STAGE, {"made_by": made_by, "wrong": wrong, "licence": options.licence}, study=study.study)
    with atomic_path(options.folder) as folder:
        folder.mkdir()
        for place, source in copied.items():
            _copy(source, folder / place)
        write_study(study, folder / STUDY_FILE)
        write_record(folder, [product for product in family if product.path not in copied.values()], made)
        save_companions(study, options.results, folder / "companions")
        write_text(folder / "README.md", _page(study, made_by, references(study, registry)))
        label_folder(folder, made | {"numerics": made_by.numerics})
    logging.info("%s: a bundle of %d tables and figures and what they show", options.folder, len(exhibits))


def _places(study: Study, exhibits: Sequence[Exhibit]) -> list[str]:
    """The files and folders in results/ that the bundle of a study holds."""
    apart = {*WITHHELD, *OF_REPOSITORY}
    read = [
        file for exhibit in exhibits for kind, files in exhibit.inputs.items() if kind not in apart for file in files
    ]
    places = [f"{RESULTS}/{OWNER}", *read]
    places += [place for job in cube_jobs(study, read) for place in (*job["predictions"], *cube_outputs(job))]
    places += [place for exhibit in exhibits for place in exhibit.outputs]
    return list(dict.fromkeys([*places, results.table_file("all"), *map(results.checks_file, study.backbones)]))


def _of_repository(exhibits: Sequence[Exhibit], repository: Path) -> Iterator[Path]:
    """The rules of the workflow, and the files of the repository that exhibits read; files elsewhere are left out."""
    yield from sorted((repository / "workflow/rules").glob("*.smk"))
    for exhibit in exhibits:
        for kind in {*OF_REPOSITORY} & {*exhibit.inputs}:
            path = Path(os.path.normpath(exhibit.inputs[kind][0]))
            if path.is_relative_to(repository):
                yield path
            else:
                logging.warning(
                    "%s lies outside of %s, so it is left out, and %s with it", path, repository, exhibit.name
                )


def _check_study(study: Study, family: Sequence[Product], file: Path) -> None:
    """Refuse a study of the same name whose seeds or metrics are not those that the results were made with."""
    wanted = {
        "questions": lambda made: made["seed"] == study.seed,
        "train": lambda made: made["policy"]["seed"] == study.policy.seed,
        "metrics": lambda made: made["metrics"] == study.metrics.model_dump(mode="json"),
    }
    for product in family:
        holds = wanted.get(product.facts.get("stage", ""), lambda made: True)
        if not holds(json.loads(product.attributes.get("settings", "{}"))):
            raise ConfigError(f"{product.path}: was not made with the settings of {file}; name its study by --study")


def _copy(source: Path, target: Path) -> None:
    """Copy a file, or those of a folder. Raises ContractError if one is missing or has changed since it was written."""
    if not source.exists():
        raise ContractError(absent(source))
    for file in sorted(source.rglob("*")) if source.is_dir() else [source]:
        if file.is_file() and not file.name.startswith("."):
            check_seal(file)
            check_beside(file)
            place = target / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)


def _page(study: Study, made_by: Maker, sets: Iterable[str]) -> str:
    """The page that a reader of the bundle sees first; its head tells the Hub which tables to show."""
    asked = "\n".join(f"* {line}" for line in sets)
    return f"""---
configs:
- config_name: predictions
  data_files: results/predictions/**/*.parquet
---

# CoCal study {study.study}

{study.caption}

* `results/predictions`: the confidence of every method on every response, without its text
* `results/metrics`, `resamples`: metric cubes, and the metrics of every resample of the questions
* `results/tables`, `figures`: all exhibits, with their numbers as CSV
* `companions`: the companions of the final policies; `cocal.Companion.from_pretrained(FOLDER)` reads one
* `results/lineage.json`: what made all of it, back to the questions, with settings, versions and digests
* `study.yaml`, `Snakefile`, `workflow/rules`: the study and its rules
* `provenance.json`: size and SHA-256 of every file

Published with CoCal at commit {made_by.commit}, {made_by.numerics} numerics, on {made_by.processor}.

```
cocal reanalyse FOLDER                    # rebuilds what rests on predictions, and compares the bytes
cocal trace FOLDER/results/tables/main.csv --cell cocal-binary macro-mathematics ece
```

Question sets, which are not in here:

{asked}
"""
