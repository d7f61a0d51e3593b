"""`cocal slurm`: check a SLURM cluster before a run's first job, or cancel the run's jobs."""

import argparse
import os
import sys

from cocal.runtime import slurm


def run(options: argparse.Namespace) -> None:
    """Check the cluster, or cancel the jobs."""
    if options.cancel:
        jobs = slurm.cancel(options.directory.resolve())
        print(f"cancelled {len(jobs)} job(s)", *(job.id for job in jobs), file=sys.stderr)
    else:
        slurm.check(options.directory.resolve(), slurm.site_of(os.environ))
