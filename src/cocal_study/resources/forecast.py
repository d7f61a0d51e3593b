"""The forecast of `cocal plan`: the jobs that are left, hours, memory and storage by rule, and hours by GPU."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import takewhile
from pathlib import Path

from cocal.errors import ConfigError
from cocal_study.config.backbone import PretrainingSettings
from cocal_study.config.study import Study
from cocal_study.resources.estimate import HIGH, LOW, PAPER, RULES, Pace, rule_of, workloads
from cocal_study.resources.memory import GPUS, Gpu, fitting_card, least_memory, too_small


def pace_on(gpu: Gpu, pace: Pace) -> Pace:
    """The pace of a GPU of another kind than the B200 of `pace`, by the data sheets of both."""
    faster, wider = gpu.teraflops / GPUS[-1].teraflops, gpu.bandwidth / GPUS[-1].bandwidth
    return pace._replace(bandwidth=pace.bandwidth * wider, rate=pace.rate * faster, fit=pace.fit / faster)


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
    table = text.partition("Job stats:\n")[2].splitlines()[2:]
    rows = takewhile(lambda row: row[:1] != ["total"], map(str.split, table))
    return {rule: int(count) for rule, count in rows}


def forecast(study: Study, jobs_of_rules: Mapping[str, int]) -> list[str]:
    """Lines of a table by rule: the jobs that are left (`jobs_of_rules`); of the whole study, hours of its jobs from
    low to high, GPUs of a job, the least memory on each of them, storage, and additional storage while it runs."""
    jobs: Counter[str] = Counter()
    for rule, count in jobs_of_rules.items():
        jobs[rule_of(rule) or rule] += count
    card = study.cards.get(study.card or "")
    pairs = list(zip(workloads(study, LOW), workloads(study, HIGH), strict=True))
    rows: list[tuple[str, ...]] = [("rule", "jobs", "hours", "GPUs", "memory", "storage", "while it runs")]
    for rule in (*dict.fromkeys((*RULES, *jobs)), "total"):
        work = [pair for pair in pairs if rule in ("total", rule_of(pair[0].rule))]
        count = jobs.total() if rule == "total" else jobs[rule]
        if not work and (count or rule == "total"):
            rows.append((rule, str(count), *[""] * 5))
        elif work:
            low, high = (sum(one.hours for one in some) for some in zip(*work, strict=True))
            gpus = max(one.gpus for _, one in work) if rule in RULES else 0
            memory = least_memory(study, RULES[rule].on_gpu, card.memory if card else GPUS[-1].memory) if gpus else 0
            on_gpus = (str(gpus), f"{memory:.1f} GiB") if memory else ("", "")
            sizes = (sum(getattr(one, key) for _, one in work) / 1e9 for key in ("storage", "transient"))
            disk = (f"{size:,.1f} GB" if size else "" for size in sizes)
            rows.append((rule, str(count), f"{low:,.1f} to {high:,.1f}", *on_gpus, *disk))
    first, *rest = (max(map(len, column)) for column in zip(*rows, strict=True))
    return ["  ".join([name.ljust(first), *map(str.rjust, cells, rest)]).rstrip() for name, *cells in rows]


def by_gpu(study: Study, with_card: Callable[[str], Study]) -> list[str]:
    """A line for each kind of GPU: the study's card that fits it (`with_card` gives the study on it), GPU-hours of all
    jobs from low to high, and the first reason why it is too small, if it is; and a line with the GPU-hours by the
    paper's own times. No lines if no GPU has a part in the study."""
    if all(isinstance(backbone, PretrainingSettings) for backbone in study.backbones.values()):
        return []
    lines = []
    for gpu in GPUS:
        card = fitting_card(study, gpu.memory)
        there = study if card in (None, study.card) else with_card(card)
        low, high = (gpu_hours(there, pace_on(gpu, pace)) for pace in (LOW, HIGH))
        reason = "".join(f"; too small: {one}" for one in too_small(there, gpu.memory)[:1])
        card = f" (card={card})" if card else ""
        lines.append(f"{gpu.label}, {gpu.memory:.1f} GiB{card}: {low:,.1f} to {high:,.1f} GPU-hours{reason}")
    papers = gpu_hours(study, PAPER)
    return [*lines, f"by the paper's own times, with the study's number of GPUs: {papers:,.1f} GPU-hours"]


def gpu_hours(study: Study, pace: Pace, rule: str | None = None) -> float:
    """GPU-hours of the jobs of a rule, or of all."""
    return sum(one.gpus * one.hours for one in workloads(study, pace) if rule in (None, rule_of(one.rule)))


def paces() -> str:
    """What the estimate takes for granted of a B200, where everything goes well and where it does not."""
    values = zip(Pace._fields, LOW, HIGH, strict=True)
    stated = [(name, f"{low:g}", f"{high:g}") for name, low, high in values if high is not None]
    return ", ".join(f"{name} {low}" + f" or {high}" * (low != high) for name, low, high in stated)
