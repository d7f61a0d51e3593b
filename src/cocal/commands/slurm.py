"""`cocal slurm`: check a SLURM cluster before a run's first job, or cancel the run's jobs."""

import argparse
import os
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.description = (
        "Refuse a run while jobs of an earlier run of the folder are in the queue, or if the cluster lacks the "
        "partition, GPU or account that COCAL_SLURM_* name. Snakemake calls this command before the first job."
    )
    parser.add_argument(
        "--cancel", action="store_true", help="cancel jobs of the folder and wait until they have ended"
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="folder of the study's results/ and logs/, as for `snakemake --directory` (default: this folder)",
    )


def run(options: argparse.Namespace) -> None:
    """Check the cluster, or cancel the jobs."""
    from cocal.runtime import slurm

    if options.cancel:
        jobs = slurm.cancel(options.directory.resolve())
        print(f"cancelled {len(jobs)} job(s)", *(job.id for job in jobs), file=sys.stderr)
    else:
        slurm.check(options.directory.resolve(), slurm.site_of(os.environ))
