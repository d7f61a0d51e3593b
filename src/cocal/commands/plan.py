"""`cocal plan`: jobs, GPU-hours and storage of a study by stage, before anything is submitted."""

import argparse
from collections import Counter
from pathlib import Path

COLUMNS = ("stage", "jobs", "GPU-hours", "storage", "while it runs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--study", type=Path, default=Path("config/config.yaml"), help="configuration of the study")
    parser.add_argument(
        "--directory",
        type=Path,
        help="folder of the study's results/ and logs/, as of `snakemake --directory`; by default "
        "studies/NAME if there is one or results/ belongs to another study, else this one",
    )
    parser.add_argument("--snakefile", type=Path, default=Path("Snakefile"), help="the workflow that counts the jobs")
    parser.add_argument("--assumptions", help="JSON or YAML file: what the estimates rest on; the paper's by default")


def run(options: argparse.Namespace) -> None:
    """Count the jobs that are left to do with a dry-run, estimate the rest from the configuration, print."""
    from cocal.config import load_study, parse_settings
    from cocal.questions.files import counted
    from cocal.store.owner import owner_of
    from cocal.study.estimate import STAGES, Assumptions, stage_of, workloads

    study = counted(load_study(options.study))
    beside = Path("studies") / study.study
    here = not beside.exists() and owner_of("results") in (None, study.study)
    directory = options.directory or (Path() if here else beside)
    assumed = parse_settings(Assumptions, options.assumptions, "--assumptions")
    jobs: Counter[str] = Counter()
    for rule, count in jobs_left(options.snakefile, options.study, directory).items():
        jobs[stage_of(rule) or rule] += count
    done = list(workloads(study, assumed))
    lines = [COLUMNS]
    for stage in (*STAGES, *(name for name in jobs if name not in STAGES)):
        of_stage = [one for one in done if one.stage == stage]
        lines.append(_line(stage, jobs[stage], of_stage))
    lines.append(_line("total", jobs.total(), done))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"{options.study}: {study.study}")
    for first, *rest in lines:
        numbers = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        print("  ".join([first.ljust(widths[0]), *numbers]))
    print(f"\nJobs: those left to do in {directory.absolute()}. Hours and storage: the complete study, estimated from")
    for key, field in Assumptions.model_fields.items():
        meaning = " ".join((field.description or "").split())
        print(f"  {key} = {getattr(assumed, key):,}".ljust(40) + meaning)


def jobs_left(snakefile: Path, study: Path, directory: Path) -> dict[str, int]:
    """Jobs of each rule that a dry-run of the workflow plans for a folder of results.

    Raises:
        ConfigError: if Snakemake is not installed, or refuses the study.
    """
    import subprocess
    import sys
    from itertools import takewhile

    from cocal.errors import ConfigError

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


def _line(name: str, jobs: int, work: list) -> tuple[str, ...]:
    hours, storage, transient = (
        sum(getattr(one, key) for one in work) for key in ("gpu_hours", "storage", "transient")
    )
    return name, str(jobs), f"{hours:,.1f}", _size(storage), _size(transient)


def _size(size: float) -> str:
    """Bytes, in gigabytes."""
    return f"{size / 1e9:,.1f} GB"
