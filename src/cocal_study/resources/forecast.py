"""The forecast of `cocal plan`: the jobs that are left, hours, memory and storage by rule, and hours by GPU."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from cocal.errors import ConfigError
from cocal_study.config.backbone import PretrainingSettings
from cocal_study.config.study import Study
from cocal_study.resources.estimate import LOW, PAPER, RULES, Assumptions, Workload, rule_of, workloads
from cocal_study.resources.memory import least_memory, too_small


class Gpu(NamedTuple):
    """A GPU as its maker describes it."""

    label: str
    """Name for readers."""
    pattern: str
    """Part of its name as `nvidia-smi` and SLURM print it, in lower case without spaces and hyphens."""
    memory: float
    """Memory in GiB, as `nvidia-smi` counts it."""
    teraflops: float
    """Peak rate of dense bfloat16 matrix products with float32 sums."""
    bandwidth: float
    """Bandwidth of its memory in TB/s."""


GPUS = (
    Gpu("RTX 4090", "rtx4090", 23.99, 165.2, 1.008),
    Gpu("A100 80 GB", "a100", 80.0, 312.0, 2.039),
    Gpu("H100 80 GB", "h100", 79.65, 989.4, 3.35),
    Gpu("H200", "h200", 140.4, 989.4, 4.8),
    Gpu("B200", "b200", 179.06, 2250.0, 8.0),
)

_TIMED = GPUS[-1]
"""The GPU of the paper's times, and of the defaults of `Assumptions`."""


def gpu_of(name: str) -> Gpu | None:
    """The GPU of a name of `nvidia-smi` or SLURM, such as "NVIDIA GeForce RTX 4090" or "h100"; None for another one.

    An A100 of 40 GB is taken for one of 80 GB: its own memory counts where it is known.
    """
    plain = name.lower().replace(" ", "").replace("-", "").replace("_", "")
    return next((gpu for gpu in GPUS if gpu.pattern in plain), None)


def assumptions_on(gpu: Gpu, assumed: Assumptions) -> Assumptions:
    """The assumptions for one GPU of another kind than the paper's B200, by the data sheets of both."""
    faster = gpu.teraflops / _TIMED.teraflops
    return assumed.model_copy(
        update={
            "bandwidth": assumed.bandwidth * gpu.bandwidth / _TIMED.bandwidth,
            "peak_teraflops": assumed.peak_teraflops * faster,
            "companion_seconds": assumed.companion_seconds / faster,
        }
    )


_COLUMNS = ("rule", "jobs", "hours", "GPUs", "memory", "storage", "while it runs")


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
    """Lines of a table by rule: the jobs that are left; of the whole study, hours of its jobs from low to high, GPUs of
    a job, the least memory on each of them, storage, and additional storage while it runs.

    Args:
        study: The study, all of whose work is estimated.
        assumed: Assumptions of the estimate, which give the higher hours on a B200.
        jobs_of_rules: Number of jobs that are left, by rule; a rule that `RULES` lacks has its own line.
    """
    jobs: Counter[str] = Counter()
    for rule, count in jobs_of_rules.items():
        jobs[rule_of(rule) or rule] += count
    card = study.cards.get(study.card)
    low, high = (list(workloads(study, assumed.model_copy(update=one))) for one in (LOW, {}))
    rows = []
    for rule in dict.fromkeys((*RULES, *jobs)):
        work = [(one, other) for one, other in zip(low, high, strict=True) if rule_of(one.rule) == rule]
        if work or jobs[rule]:
            memory = least_memory(study, RULES[rule].on_gpu, card.memory if card else _TIMED.memory) if work else 0
            rows.append(_row(rule, jobs[rule], work, memory))
    return aligned([_COLUMNS, *rows, _row("total", jobs.total(), list(zip(low, high, strict=True)))])


def _row(name: str, jobs: int, work: Sequence[tuple[Workload, Workload]], memory: float = 0) -> tuple[str, ...]:
    """A line of the forecast, from workloads with the lower and the higher hours."""
    if not work:
        return name, str(jobs), *[""] * 5
    low, high = (sum(one.hours for one in some) for some in zip(*work, strict=True))
    storage, transient = (sum(getattr(one, key) for _, one in work) / 1e9 for key in ("storage", "transient"))
    gpus = max(one.gpus for _, one in work)
    on_gpus = (str(gpus), f"{memory:.1f} GiB") if gpus and memory else ("", "")
    return name, str(jobs), f"{low:,.1f} to {high:,.1f}", *on_gpus, f"{storage:,.1f} GB", f"{transient:,.1f} GB"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column to the left, all others to the right."""
    first, *rest = (max(map(len, column)) for column in zip(*rows, strict=True))
    return ["  ".join([name.ljust(first), *map(str.rjust, cells, rest)]).rstrip() for name, *cells in rows]


def assumptions_listed(assumed: Assumptions) -> list[str]:
    """A line for each assumption with its value, another value that gives the lower hours, and its meaning."""
    low = assumed.model_copy(update=LOW)
    lines = []
    for key, field in Assumptions.model_fields.items():
        values = dict.fromkeys(f"{getattr(one, key):,}" for one in (low, assumed) if getattr(one, key) is not None)
        stated = " or ".join(values) or f"none; {PAPER[key]:,} for the paper's"
        lines.append(f"  {key} = {stated}".ljust(48) + " ".join((field.description or "").split()))
    return lines


_AS_MUCH = 1.02
"""Cards of the same size differ by a percent in the memory that they state."""


def fitting_card(study: Study, memory: float) -> str | None:
    """The largest card of a study that has no more memory than a GPU of `memory` GiB; None if there is none."""
    fitting = {name: card.memory for name, card in study.cards.items() if card.memory <= _AS_MUCH * memory}
    return max(fitting, key=fitting.__getitem__) if fitting else None


def by_gpu(study: Study, with_card: Callable[[str], Study], assumed: Assumptions) -> list[str]:
    """A line for each kind of GPU: the study's card that fits it, GPU-hours of all jobs from low to high, and the first
    reason why it is too small, if it is; and a line with the GPU-hours by the paper's own times.

    Args:
        study: The study. If no GPU has a part in it, there are no lines.
        with_card: The same study on another of its cards.
        assumed: Assumptions for the paper's B200, which give the higher hours.
    """
    if all(isinstance(backbone, PretrainingSettings) for backbone in study.backbones.values()):
        return []
    lines = []
    for gpu in GPUS:
        card = fitting_card(study, gpu.memory)
        there = study if card in (None, study.card) else with_card(card)
        low, high = (gpu_hours(there, assumptions_on(gpu, assumed.model_copy(update=one))) for one in (LOW, {}))
        reason = "".join(f"; too small: {one}" for one in too_small(there, gpu.memory)[:1])
        card = f" (card={card})" if card else ""
        lines.append(f"{gpu.label}, {gpu.memory:.1f} GiB{card}: {low:,.1f} to {high:,.1f} GPU-hours{reason}")
    papers = gpu_hours(study, assumed.model_copy(update=PAPER))
    return [*lines, f"by the paper's own times, with the study's number of GPUs: {papers:,.1f} GPU-hours"]


def gpu_hours(study: Study, assumed: Assumptions, rule: str | None = None) -> float:
    """GPU-hours of the jobs of a rule, or of all."""
    return sum(one.gpu_hours for one in workloads(study, assumed) if rule in (None, rule_of(one.rule)))
