"""`cocal slurm`: what a run on SLURM needs to know before its first job."""

import argparse
import os
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Whether to cancel."""
    parser.description = (
        "Refuses while jobs of an earlier run of the folder are in the queue, or where the cluster has no such "
        "partition, GPU or account as COCAL_SLURM_* ask for. Snakemake calls it before the first job."
    )
    parser.add_argument(
        "--cancel", action="store_true", help="cancel jobs of the folder and wait until they have ended"
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="folder of the study's results/ and logs/, as of `snakemake --directory`; this one by default",
    )


def run(options: argparse.Namespace) -> None:
    """Check, or cancel."""
    from cocal.runtime import slurm

    if options.cancel:
        jobs = slurm.cancel(options.directory.resolve())
        print(f"cancelled {len(jobs)} job(s)", *(job.id for job in jobs), file=sys.stderr)
    else:
        slurm.check(options.directory.resolve(), slurm.site_of(os.environ))
