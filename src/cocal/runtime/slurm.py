"""Before the first job of a run on SLURM: has the site what the profile will ask for, and has an earlier run of this
folder jobs in the queue, which would write the same files?

`snakemake --profile slurm` leaves the values of the site in the environment (workflow/profiles/slurm/config.yaml).
"""

import getpass
import re
import shlex
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from cocal.errors import ClusterError

JOB_PREFIX = "cocal_"
"""How the names of our jobs begin: `slurm-jobname-prefix` of the profile."""
TIMEOUT = 60
"""Seconds that a SLURM command may take; a busy controller needs some."""


class Site(NamedTuple):
    """What the jobs of the profile ask for."""

    cpu_partition: str
    gpu_partition: str
    gpu_type: str
    """Empty: any."""
    node_gpus: int
    """Most GPUs a node that a job asks for; 0: none."""
    minutes: int
    """Longest time limit of a job."""
    account: str
    """Empty: none."""


class Partition(NamedTuple):
    """What a partition offers."""

    gpus: dict[str, int]
    """Most GPUs of a type on one node; untyped ones under ""."""
    minutes: float
    """Longest time limit of a job; infinite where there is none."""


class Job(NamedTuple):
    """A job in the queue."""

    id: str
    state: str
    what: str
    """Rule and wildcards."""


def site_of(environment: Mapping[str, str]) -> Site | None:
    """The values of the site, or None where no profile has put them into the environment."""
    try:
        return Site(
            cpu_partition=environment["COCAL_SLURM_CPU_PARTITION"],
            gpu_partition=environment["COCAL_SLURM_GPU_PARTITION"],
            gpu_type=environment["COCAL_SLURM_GPU_TYPE"],
            node_gpus=int(environment["COCAL_SLURM_NODE_GPUS"]),
            minutes=int(environment["COCAL_SLURM_MAX_MINUTES"]),
            account=environment["COCAL_SLURM_ACCOUNT"],
        )
    except KeyError:
        return None


def check(folder: Path, site: Site | None) -> None:
    """Whether a run of `folder` may start now.

    Raises:
        ClusterError: saying what is in the way, and what to type.
    """
    try:
        jobs = queued_jobs(folder)
    except ClusterError:
        if site is None:  # a local run, on a machine whose SLURM does not answer
            return
        raise
    refuse_orphans(jobs, folder)
    if site is not None:
        check_site(site)


def check_site(site: Site) -> None:
    """Compare what will be asked for with what this cluster has.

    Raises:
        ClusterError: naming every value that is wrong, what there is, and the variable to export.
    """
    found = problems(site, parse_partitions(_output("sinfo --noheader --format=%R|%l|%G")), user_accounts())
    if found:
        raise ClusterError("\n  ".join(["this cluster cannot run the jobs of the profile:", *found]))


def problems(site: Site, partitions: Mapping[str, Partition], accounts: list[str]) -> list[str]:
    """Every value of the site that this cluster refuses, one sentence each."""
    found = []
    wanted = {"CPU": site.cpu_partition, "GPU": site.gpu_partition if site.node_gpus else site.cpu_partition}
    for kind, name in wanted.items():
        partition = partitions.get(name)
        if partition is None:
            known = ", ".join(sorted(partitions))
            found.append(f"no partition {name!r} here, only {known}: export COCAL_SLURM_{kind}_PARTITION=NAME")
            continue
        gpus = partition.gpus.get(site.gpu_type, 0) if site.gpu_type else max(partition.gpus.values(), default=0)
        if kind == "GPU" and gpus < site.node_gpus:
            offered = ", ".join(f"gpu:{t}:{n}" if t else f"gpu:{n}" for t, n in partition.gpus.items()) or "none"
            found.append(
                f"no node of partition {name!r} has {site.node_gpus} GPUs {site.gpu_type!r}, it offers {offered}: "
                "export COCAL_SLURM_GPU_TYPE=TYPE, COCAL_SLURM_NODE_GPUS=COUNT"
            )
    limit = min((partitions[name].minutes for name in wanted.values() if name in partitions), default=site.minutes)
    if site.minutes > limit:
        found.append(
            f"jobs end after {limit:.0f} minutes here, the profile asks for up to {site.minutes}: "
            f"export COCAL_SLURM_MAX_MINUTES={limit:.0f} (training, resampling and responses resume)"
        )
    if site.account and site.account.lower() not in accounts:
        known = f"only {', '.join(accounts)}" if accounts else "nor any other: unset COCAL_SLURM_ACCOUNT"
        found.append(f"you have no account {site.account!r} here, {known}")
    if accounts and not site.account:
        found.append(f"jobs need an account, you have {', '.join(accounts)}: export COCAL_SLURM_ACCOUNT=NAME")
    return list(dict.fromkeys(found))


def parse_partitions(text: str) -> dict[str, Partition]:
    """Partitions by name, from `sinfo --format=%R|%l|%G`: one line for each kind of node in each."""
    partitions: dict[str, Partition] = {}
    for line in text.splitlines():
        name, limit, resources = line.split("|")
        partition = partitions.setdefault(name, Partition({}, parse_minutes(limit)))
        for kind, count in re.findall(r"\bgpu:(?:([^:,()]+):)?(\d+)", resources):
            partition.gpus[kind] = max(int(count), partition.gpus.get(kind, 0))
    return partitions


def parse_minutes(limit: str) -> float:
    """Minutes of a time limit: [D-]HH:MM:SS, MM:SS, or a word where there is none."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit)
    if match is None:
        return float("inf")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return 60 * (24 * days + hours) + minutes + seconds / 60


def user_accounts() -> list[str]:
    """Accounts that may be charged, in small letters; none where the cluster keeps no accounts."""
    try:
        text = _output(f"sacctmgr --noheader --parsable2 show associations user={getpass.getuser()} format=account")
    except ClusterError:
        return []
    return sorted({line.strip().lower() for line in text.splitlines() if line.strip()})


def queued_jobs(folder: Path) -> list[Job]:
    """Our jobs that were submitted from `folder` and have not ended.

    Raises:
        ClusterError: if the queue cannot be read.
    """
    return parse_queue(_output("squeue --me --noheader --format=%i|%T|%j|%k|%Z"), folder)


def parse_queue(text: str, folder: Path) -> list[Job]:
    """Our jobs of `folder`, from `squeue --format=%i|%T|%j|%k|%Z`. A job that a driver itself runs in is not ours."""
    rows = (line.split("|", maxsplit=4) for line in text.splitlines())
    return [
        Job(number, state, comment)
        for number, state, name, comment, place in rows
        if name.startswith(JOB_PREFIX) and Path(place) == folder
    ]


def refuse_orphans(jobs: list[Job], folder: Path) -> None:
    """Refuse to start beside jobs of an earlier run of `folder`, e.g. one whose Snakemake was killed.

    Raises:
        ClusterError: naming them, and what to type.
    """
    if jobs:
        raise ClusterError(
            f"{len(jobs)} job(s) of an earlier run of {folder} are in the queue and would write the same files:\n"
            + "\n".join(f"  {job.id} {job.state} {job.what}" for job in jobs)
            + f"\nwait until they have ended (squeue --me), or cancel them: cocal slurm --cancel --directory {folder}"
        )


def cancel(folder: Path, patience: float = 300, pause: float = 1) -> list[Job]:
    """Cancel our jobs of `folder` and wait until they have ended: a job that is being cancelled may still write.

    Returns:
        The jobs that were cancelled.

    Raises:
        ClusterError: if some are still there after `patience` seconds.
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
    """What a SLURM command prints.

    Raises:
        ClusterError: if it is missing, fails, or takes longer than `TIMEOUT`.
    """
    words = shlex.split(command)
    try:
        done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=TIMEOUT)
    except FileNotFoundError:
        raise ClusterError(f"{words[0]}: no such command; is this a login node of a SLURM cluster?") from None
    except subprocess.CalledProcessError as error:
        raise ClusterError(f"{command}: {error.stderr.strip() or f'status {error.returncode}'}") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{command}: no answer within {TIMEOUT} s") from None
    return done.stdout
