"""Checks before the first job of a run on SLURM: the cluster must offer what the profile requests, and no job of an
earlier run of the same folder may be in the queue, because it would write the same files.

`snakemake --profile slurm` puts the values of the site into the environment (workflow/profiles/slurm/config.yaml).
"""

import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from cocal.errors import ClusterError
from cocal.runtime.lock import busy

JOB_PREFIX = "cocal_"
"""Beginning of the names of our jobs: `slurm-jobname-prefix` of the profile."""
TIMEOUT = 60
"""Seconds that a SLURM command may take; a busy controller is slow."""


class Site(NamedTuple):
    """The resources that jobs request, by the variables `COCAL_SLURM_*` of the profile, of which docs/paper-study.md
    has a table. A partition may be several, separated by commas; an empty type means any type, and an empty account
    that jobs name none. `node_gpus` is 0 if nodes have none; memory is in megabytes."""

    cpu_partition: str
    gpu_partition: str
    gpu_type: str
    node_gpus: int
    max_minutes: int
    account: str
    nodes: int = 1
    node_memory: int = 0


def site_of(environment: Mapping[str, str]) -> Site | None:
    """The values of the site; None if no profile has put them into the environment."""
    given = {name: environment.get(f"COCAL_SLURM_{name.upper()}") for name in Site._fields}
    if any(given[name] is None for name in Site._fields if name not in Site._field_defaults):
        return None
    return Site(**{n: Site.__annotations__[n](value) for n, value in given.items() if value is not None})


def check(folder: Path, site: Site | None) -> None:
    """Refuse to start a run of `folder` that could not succeed now. Raises ClusterError if earlier jobs are in the
    queue, or the cluster cannot run the jobs; the message says what to do."""
    try:
        jobs = queued_jobs(folder)
    except ClusterError:
        if site is None:  # a local run, on a machine whose SLURM does not answer
            return
        raise
    if jobs:
        listed = [f"job {number} {told}" for number, told in jobs.items()]
        raise ClusterError(busy(folder, listed, f"scancel {' '.join(jobs)}"))
    if site is None:
        return
    problems = []
    for request in requests(site):
        try:
            _output(request)
        except ClusterError as error:  # in SLURM's own words
            problems.append(" ".join(str(error).split()))
    limit = shortest_limit(site, _output("sinfo --all --noheader --format=%R|%l"))
    if site.max_minutes > limit:  # SLURM would take such jobs, and never start them
        problems.append(
            f"jobs end after {limit:.0f} minutes here, but the profile requests up to {site.max_minutes}: "
            f"export COCAL_SLURM_MAX_MINUTES={limit:.0f} (the long jobs resume)"
        )
    if problems:
        remedy = "`sinfo -o '%R %l %G %m'` shows what there is, and docs/paper-study.md the variables COCAL_SLURM_*"
        raise ClusterError("\n  ".join(["this cluster cannot run the jobs of the profile:", *problems, remedy]))


def requests(site: Site) -> list[str]:
    """The commands that ask SLURM whether it would take the largest job without GPUs, and that with GPUs."""
    ask = f"sbatch --test-only --wrap=true --time={site.max_minutes}"
    ask += f" --account={shlex.quote(site.account)}" if site.account else ""
    commands = [f"{ask} --partition={shlex.quote(site.cpu_partition)}"]
    if site.node_gpus:
        kind = ":".join(filter(None, ("gpu", site.gpu_type, str(site.node_gpus))))
        ask += f" --partition={shlex.quote(site.gpu_partition)} --gres={shlex.quote(kind)}"
        commands.append(f"{ask} --nodes={site.nodes} --mem={site.node_memory}M")
    return commands


def shortest_limit(site: Site, listing: str) -> float:
    """Minutes that the longest job may take in each of the site's partitions, or in any one of several that are named
    together. `listing` is the output of `sinfo --format=%R|%l`; a partition that it does not show, or shows with a word
    such as "infinite" in the place of [D-]HH:MM:SS or MM:SS, has no limit."""
    limits = {}
    for name, limit in (line.split("|") for line in listing.splitlines()):
        if match := re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit):
            days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
            limits[name] = 60 * (24 * days + hours) + minutes + seconds / 60
    wanted = [site.cpu_partition, *([site.gpu_partition] if site.node_gpus else [])]
    return min(max(limits.get(partition.strip(), float("inf")) for partition in names.split(",")) for names in wanted)


def queued_jobs(folder: Path) -> dict[str, str]:
    """State, rule and wildcards of the user's CoCal jobs that were submitted from `folder` and have not ended, by their
    numbers; jobs that run Snakemake itself are left out. Raises ClusterError if the queue cannot be read."""
    lines = _output("squeue --me --noheader --format=%i|%T|%j|%Z|%k").splitlines()
    rows = (line.split("|", maxsplit=4) for line in lines)  # the comment, in which anybody may write "|", is the last
    ours = (row for row in rows if row[2].startswith(JOB_PREFIX) and Path(row[3]) == folder)
    return {number: f"{state} {comment}" for number, state, _, _, comment in ours}


def _output(command: str) -> str:
    words = shlex.split(command)
    try:
        return subprocess.run(words, check=True, capture_output=True, text=True, timeout=TIMEOUT).stdout
    except FileNotFoundError:
        raise ClusterError(f"{words[0]}: no such command; is this a login node of a SLURM cluster?") from None
    except subprocess.CalledProcessError as error:
        raise ClusterError(f"{command}: {error.stderr.strip() or f'status {error.returncode}'}") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{command}: there was no answer within {TIMEOUT} s") from None
