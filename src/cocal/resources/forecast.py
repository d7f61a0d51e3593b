"""The forecast of `cocal plan`: the jobs that are left and the costs of the whole study, by stage."""

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from cocal.config.study import Study
from cocal.errors import ConfigError
from cocal.resources.estimate import Assumptions, Workload, workloads
from cocal.resources.rules import STAGES, rule_of

_COLUMNS = ("stage", "jobs", "GPU-hours", "storage", "while it runs")


def jobs_left(snakefile: Path, study: Path, directory: Path) -> dict[str, int]:
    """Number of jobs of each rule that a dry-run of the workflow plans in a folder.

    Raises:
        ConfigError: if Snakemake is not installed, or refuses the study.
    """
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--quiet", "rules", "--cores", "1"]
    command += ["--snakefile", str(snakefile), "--configfile", str(study), "--directory", str(directory)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    text = done.stdout + done.stderr
    if done.returncode:
        cause = "install the package with [workflow]" if "No module named snakemake" in text else text.strip()[-2000:]
        raise ConfigError(f"{snakefile}: the dry-run with {study} failed: {cause}")
    _, found, table = text.partition("Job stats:\n")
    if not found:
        return {}
    rows = takewhile(lambda row: row[:1] != ["total"], (line.split() for line in table.splitlines()[2:]))
    return {rule: int(count) for rule, count in rows}


def forecast(study: Study, assumed: Assumptions, jobs_of_rules: Mapping[str, int]) -> list[str]:
    """Lines of a table with the jobs, GPU-hours, storage and additional storage while it runs of each stage.

    Args:
        study: The study, all of whose work is estimated.
        assumed: Assumptions of the estimate.
        jobs_of_rules: Number of jobs that are left, by rule; a rule that belongs to no stage has its own line.
    """
    jobs: Counter[str] = Counter()
    for rule, count in jobs_of_rules.items():
        known = rule_of(rule)
        jobs[known.stage if known else rule] += count
    work = list(workloads(study, assumed))
    stages = (*STAGES, *(name for name in jobs if name not in STAGES))
    of_stages = [_row(stage, jobs[stage], [one for one in work if one.stage == stage]) for stage in stages]
    return aligned([_COLUMNS, *of_stages, _row("total", jobs.total(), work)])


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column to the left, all others to the right."""
    first, *rest = (max(map(len, column)) for column in zip(*rows, strict=True))
    return ["  ".join([name.ljust(first), *map(str.rjust, cells, rest)]).rstrip() for name, *cells in rows]


def assumptions_listed(assumed: Assumptions) -> list[str]:
    """A line for each assumption with its value and its meaning."""
    return [
        f"  {key} = {getattr(assumed, key):,}".ljust(40) + " ".join((field.description or "").split())
        for key, field in Assumptions.model_fields.items()
    ]


def _row(name: str, jobs: int, work: Sequence[Workload]) -> tuple[str, ...]:
    hours, storage, transient = (
        sum(getattr(one, key) for one in work) for key in ("gpu_hours", "storage", "transient")
    )
    return name, str(jobs), f"{hours:,.1f}", f"{storage / 1e9:,.1f} GB", f"{transient / 1e9:,.1f} GB"
