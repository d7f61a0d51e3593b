"""Checks before the first job of a run on SLURM: the cluster must offer what the profile requests, and no job of an
earlier run of the same folder may be in the queue, because it would write the same files.

`snakemake --profile slurm` puts the values of the site into the environment (workflow/profiles/slurm/config.yaml).
"""

import getpass
import re
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cocal.errors import ClusterError
from cocal.runtime.lock import busy

JOB_PREFIX = "cocal_"
"""Beginning of the names of our jobs: `slurm-jobname-prefix` of the profile."""
TIMEOUT = 60
"""Seconds that a SLURM command may take; a busy controller is slow."""


class Site(NamedTuple):
    """The resources that the jobs of the profile request."""

    cpu_partition: str
    """Partition of jobs without GPUs, or several with commas, in any of which a job may start."""
    gpu_partition: str
    gpu_type: str
    """Type of the GPUs; if it is empty, any type will do."""
    node_gpus: int
    """Largest number of GPUs per node that a job requests; 0 if jobs use no GPU."""
    minutes: int
    """Longest time limit of a job."""
    account: str
    """Account that is charged; if it is empty, jobs name none."""
    nodes: int = 1
    """Number of nodes of a training."""
    memory: int = 0
    """Most memory on a node in megabytes that a job requests, after some attempts."""


class Partition(NamedTuple):
    """The resources that a partition offers."""

    gpus: dict[str, int]
    """Largest number of GPUs on one node, by type; GPUs without a type are under ""."""
    minutes: float
    """Longest time limit of a job; infinite if the partition sets none."""
    memory: float = 0
    """Largest memory of a node in megabytes; infinite if the partition does not say."""


class Job(NamedTuple):
    """A job in the queue."""

    id: str
    state: str
    what: str
    """Rule and wildcards of the job."""


def site_of(environment: Mapping[str, str]) -> Site | None:
    """The values of the site; None if no profile has put them into the environment."""
    try:
        return Site(
            cpu_partition=environment["COCAL_SLURM_CPU_PARTITION"],
            gpu_partition=environment["COCAL_SLURM_GPU_PARTITION"],
            gpu_type=environment["COCAL_SLURM_GPU_TYPE"],
            node_gpus=int(environment["COCAL_SLURM_NODE_GPUS"]),
            minutes=int(environment["COCAL_SLURM_MAX_MINUTES"]),
            account=environment["COCAL_SLURM_ACCOUNT"],
            nodes=int(environment.get("COCAL_SLURM_NODES", "1")),
            memory=int(environment.get("COCAL_SLURM_NODE_MEMORY", "0")),
        )
    except KeyError:
        return None


def check(folder: Path, site: Site | None) -> None:
    """Refuse to start a run of `folder` that could not succeed now.

    Raises:
        ClusterError: if earlier jobs are in the queue, or the cluster cannot run the jobs; the message says what to do.
    """
    try:
        jobs = queued_jobs(folder)
    except ClusterError:
        if site is None:  # a local run, on a machine whose SLURM does not answer
            return
        raise
    if jobs:
        listed = [f"job {job.id} {job.state} {job.what}" for job in jobs]
        raise ClusterError(busy(folder, listed, f"cocal slurm --cancel --directory {folder}"))
    if site is None:
        return
    found = problems(site, parse_partitions(_output("sinfo --all --noheader --format=%R|%l|%G|%m")), user_accounts())
    if found:
        raise ClusterError("\n  ".join(["this cluster cannot run the jobs of the profile:", *found]))


def problems(site: Site, partitions: Mapping[str, Partition], accounts: list[str]) -> list[str]:
    """One sentence for each value of the site that this cluster refuses.

    Partitions and accounts that the cluster does not show cannot be compared, and are not refused.
    """
    found, limit = [], float("inf")
    wanted = {"CPU": site.cpu_partition, "GPU": site.gpu_partition if site.node_gpus else site.cpu_partition}
    for kind, name in wanted.items() if partitions else ():
        names = [one.strip() for one in name.split(",")]
        if unknown := [one for one in names if one not in partitions]:
            known = ", ".join(sorted(partitions))
            found.append(
                f"there is no partition {unknown[0]!r}, only {known}: export COCAL_SLURM_{kind}_PARTITION=NAME"
            )
            continue
        partition = _together([partitions[one] for one in names])
        limit = min(limit, partition.minutes)
        gpus = partition.gpus.get(site.gpu_type, 0) if site.gpu_type else max(partition.gpus.values(), default=0)
        if kind == "GPU" and gpus < site.node_gpus:
            of_type = f" of type {site.gpu_type!r}" if site.gpu_type else ""
            offered = ", ".join(f"gpu:{t}:{n}" if t else f"gpu:{n}" for t, n in partition.gpus.items()) or "none"
            found.append(
                f"no node of partition {name!r} has {site.node_gpus} GPUs{of_type}; it offers {offered}: "
                "export COCAL_SLURM_GPU_TYPE=TYPE, COCAL_SLURM_NODE_GPUS=COUNT"
            )
        if kind == "GPU" and site.memory > partition.memory:
            found.append(
                f"nodes of partition {name!r} have {partition.memory} MB of memory, but the profile requests up to "
                f"{site.memory}: export COCAL_SLURM_NODE_MEMORY={partition.memory}"
            )
    if site.minutes > limit:
        found.append(
            f"jobs end after {limit:.0f} minutes here, but the profile requests up to {site.minutes}: "
            f"export COCAL_SLURM_MAX_MINUTES={limit:.0f} (the long jobs resume)"
        )
    if site.account and accounts and site.account.lower() not in accounts:
        found.append(f"you have no account {site.account!r} here, only {', '.join(accounts)}")
    if accounts and not site.account:
        found.append(f"jobs need an account; you have {', '.join(accounts)}: export COCAL_SLURM_ACCOUNT=NAME")
    return list(dict.fromkeys(found))


def _together(partitions: Sequence[Partition]) -> Partition:
    """The most that any of some partitions offers."""
    kinds = dict.fromkeys(kind for one in partitions for kind in one.gpus)
    gpus = {kind: max(one.gpus.get(kind, 0) for one in partitions) for kind in kinds}
    return Partition(gpus, max(one.minutes for one in partitions), max(one.memory for one in partitions))


def parse_partitions(text: str) -> dict[str, Partition]:
    """Partitions by name, from `sinfo --format=%R|%l|%G|%m`: a line for each partition and kind of node."""
    partitions: dict[str, Partition] = {}
    for line in text.splitlines():
        name, limit, resources, memory = line.split("|")
        known = partitions.get(name, Partition({}, parse_minutes(limit)))
        megabytes = int(match[0]) if (match := re.match(r"\d+", memory)) else float("inf")  # N/A
        partition = known._replace(memory=max(known.memory, megabytes))
        partitions[name] = partition
        for kind, count in re.findall(r"\bgpu:(?:([^:,()]+):)?(\d+)", resources):
            partition.gpus[kind] = max(int(count), partition.gpus.get(kind, 0))
    return partitions


def parse_minutes(limit: str) -> float:
    """Minutes of a time limit that SLURM prints as [D-]HH:MM:SS or MM:SS; infinite for a word such as "infinite"."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit)
    if match is None:
        return float("inf")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return 60 * (24 * days + hours) + minutes + seconds / 60


def user_accounts() -> list[str]:
    """The user's accounts in lower case; an empty list if the cluster keeps none, or does not show them."""
    try:
        text = _output(f"sacctmgr --noheader --parsable2 show associations user={getpass.getuser()} format=account")
    except ClusterError:
        return []
    return sorted({line.strip().lower() for line in text.splitlines() if line.strip()})


def queued_jobs(folder: Path) -> list[Job]:
    """The user's CoCal jobs that were submitted from `folder` and have not ended; none that run Snakemake itself.

    Raises:
        ClusterError: if the queue cannot be read.
    """
    lines = _output("squeue --me --noheader --format=%i|%T|%j|%k|%Z").splitlines()
    rows = (line.split("|", maxsplit=4) for line in lines)
    ours = (row for row in rows if row[2].startswith(JOB_PREFIX) and Path(row[4]) == folder)
    return [Job(number, state, comment) for number, state, _, comment, _ in ours]


def cancel(folder: Path, patience: float = 300, pause: float = 1) -> list[Job]:
    """Cancel the jobs of `queued_jobs` and wait until they have ended: a job that is being cancelled may still write.

    Returns:
        The jobs that were cancelled.

    Raises:
        ClusterError: if some of them have not ended after `patience` seconds.
    """
    jobs = queued_jobs(folder)
    if jobs:
        _output(f"scancel {' '.join(job.id for job in jobs)}")
    deadline = time.monotonic() + patience
    while left := queued_jobs(folder):
        if time.monotonic() > deadline:
            raise ClusterError(
                f"job(s) {', '.join(job.id for job in left)} have not ended {patience:.0f} s after scancel"
            )
        time.sleep(pause)
    return jobs


def _output(command: str) -> str:
    """The output of a SLURM command."""
    words = shlex.split(command)
    try:
        done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=TIMEOUT)
    except FileNotFoundError:
        raise ClusterError(f"{words[0]}: no such command; is this a login node of a SLURM cluster?") from None
    except subprocess.CalledProcessError as error:
        raise ClusterError(f"{command}: {error.stderr.strip() or f'status {error.returncode}'}") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{command}: there was no answer within {TIMEOUT} s") from None
    return done.stdout
